"""The recorded fault-injection lab: real runs, stored as events, which the site replays."""
