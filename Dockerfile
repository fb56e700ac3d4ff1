# An image for the tasks of a cluster: each runs `python -m helpers.worker PAYLOAD`.
#
#   docker build -t registry.example/lessons:1 .
#
# Python and the packages must be those of the notebook that writes the payload. For GPUs, name an
# image with CUDA and this Python as the base: --build-arg BASE=…
ARG BASE=python:3.11-slim
FROM ${BASE}
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY helpers helpers
RUN pip install --no-cache-dir .
# helpers.engines.kubernetes runs its pods as this user, who owns the payload and the checkpoints.
RUN useradd --uid 1000 --create-home lessons
USER 1000
WORKDIR /home/lessons
CMD ["python", "-m", "helpers.worker", "--help"]
