"""Wrong answers to the tasks of lesson 7."""

READ_PART = """
def read_part(count):
    order = np.random.default_rng(7).permutation(count).tolist()
    config = json.loads(os.environ["TF_CONFIG"])
    return order[config["task"]["index"] :: len(config["cluster"]["worker"])]
"""

WRONG = {
    "own_part": {
        "knows only a task called chief": """
def own_part(resolver, train, export, evaluate, serve):
    if resolver.task_type == "evaluator":
        evaluate()
    elif resolver.task_type == "ps":
        serve()
    else:
        train()
        if resolver.task_type == "chief":
            export()
""",
        "everybody exports": """
def own_part(resolver, train, export, evaluate, serve):
    if resolver.task_type == "evaluator":
        evaluate()
    elif resolver.task_type == "ps":
        serve()
    else:
        train()
        export()
""",
        "every first task exports": """
def own_part(resolver, train, export, evaluate, serve):
    work = {"evaluator": evaluate, "ps": serve}
    work.get(resolver.task_type, train)()
    if resolver.task_id == 0:
        export()
""",
        "only the chief works": """
def own_part(resolver, train, export, evaluate, serve):
    if resolver.task_id == 0:
        train()
        export()
        evaluate()
""",
    },
    "slurm_config": {
        "sorts the nodes": """
def slurm_config(variables):
    nodes = sorted(variables["SLURM_STEP_NODELIST"].split(","))
    ports = range(20000, 20000 + int(variables["SLURM_NTASKS_PER_NODE"]))
    addresses = [f"{node}:{port}" for node in nodes for port in ports]
    task = {"type": "worker", "index": int(variables["SLURM_PROCID"])}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})
""",
        "counts from 1": """
def slurm_config(variables):
    nodes = variables["SLURM_STEP_NODELIST"].split(",")
    ports = range(20000, 20000 + int(variables["SLURM_NTASKS_PER_NODE"]))
    addresses = [f"{node}:{port}" for node in nodes for port in ports]
    task = {"type": "worker", "index": int(variables["SLURM_PROCID"]) + 1}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})
""",
        "returns a dict": """
def slurm_config(variables):
    nodes = variables["SLURM_STEP_NODELIST"].split(",")
    task = {"type": "worker", "index": int(variables["SLURM_PROCID"])}
    return {"cluster": {"worker": [f"{node}:20000" for node in nodes]}, "task": task}
""",
    },
    "start_again": {
        "starts again after every error": """
def start_again(start, restarts):
    for _ in range(1 + restarts):
        if not any(start()):
            return True
    return False
""",
        "looks at the first process": """
def start_again(start, restarts):
    for _ in range(1 + restarts):
        code = start()[0]
        if code < 128:
            return code == 0
    return False
""",
        "knows only 138": """
def start_again(start, restarts):
    for _ in range(1 + restarts):
        codes = start()
        if any(code not in (0, 138) for code in codes):
            return False
        if not any(codes):
            return True
    return False
""",
        "starts again if any process asks for it": """
def start_again(start, restarts):
    for _ in range(1 + restarts):
        codes = start()
        if max(codes) < 128:
            return max(codes) == 0
    return False
""",
    },
    "mended_job": {
        "mends only the policy": """
mended_job = yaml.safe_load(broken)
mended_job["spec"]["tfReplicaSpecs"]["Worker"]["restartPolicy"] = "ExitCode"
""",
        "takes a claim of its own": """
mended_job = yaml.safe_load(broken)
worker = mended_job["spec"]["tfReplicaSpecs"]["Worker"]
worker["restartPolicy"] = "ExitCode"
claim = {"claimName": "scratch"}
worker["template"]["spec"]["volumes"] = [{"name": "scratch", "persistentVolumeClaim": claim}]
""",
        "leaves the workers out": """
mended_job = yaml.safe_load(broken)
del mended_job["spec"]["tfReplicaSpecs"]["Worker"]
""",
        "mends the volume, and does not mount it": """
mended_job = yaml.safe_load(broken)
replicas = mended_job["spec"]["tfReplicaSpecs"]
replicas["Worker"]["restartPolicy"] = "ExitCode"
volumes = replicas["Chief"]["template"]["spec"]["volumes"]
replicas["Worker"]["template"]["spec"]["volumes"] += volumes
""",
    },
    "export_part": {
        "keeps the captured generator": """
generator = np.random.default_rng(7)


def read_part(count):
    order = generator.permutation(count).tolist()
    config = json.loads(os.environ["TF_CONFIG"])
    return order[config["task"]["index"] :: len(config["cluster"]["worker"])]


def export_part(cluster, folder, count):
    cluster.export(folder, read_part, count, target="slurm")
""",
        "forgets the target": f"""{READ_PART}

def export_part(cluster, folder, count):
    cluster.export(folder, read_part, count)
""",
        "chooses another cluster manager": f"""{READ_PART}

def export_part(cluster, folder, count):
    cluster.export(folder, read_part, count, target="kubernetes")
""",
        "exports nothing": """
def export_part(cluster, folder, count):
    return np.random.default_rng(7).permutation(count)
""",
    },
}

PARTLY = {
    "export_part": (
        1,
        """
def read_part(count):
    config = json.loads(os.environ["TF_CONFIG"])
    order = np.random.default_rng(config["task"]["index"]).permutation(count).tolist()
    return order[config["task"]["index"] :: len(config["cluster"]["worker"])]


def export_part(cluster, folder, count):
    cluster.export(folder, read_part, count, target="slurm")
""",
    ),
    "own_part": (
        2,
        """
def own_part(resolver, train, export, evaluate, serve):
    work = {"evaluator": evaluate, "ps": serve}
    work.get(resolver.task_type, train)()
    if (resolver.task_type, resolver.task_id) == ("worker", 0):
        export()
""",
    ),
    "slurm_config": (
        2,
        """
def slurm_config(variables):
    nodes = variables["SLURM_STEP_NODELIST"].split(",")
    task = {"type": "worker", "index": int(variables["SLURM_PROCID"])}
    return json.dumps({"cluster": {"worker": [f"{node}:20000" for node in nodes]}, "task": task})
""",
    ),
    "start_again": (
        1,
        """
def start_again(start, restarts):
    while True:
        codes = start()
        if any(0 < code < 128 for code in codes):
            return False
        if not any(codes):
            return True
""",
    ),
    "mended_job": (
        1,
        """
mended_job = yaml.safe_load(broken)
replicas = mended_job["spec"]["tfReplicaSpecs"]
replicas["Worker"]["template"] = replicas["Chief"]["template"]
""",
    ),
}
