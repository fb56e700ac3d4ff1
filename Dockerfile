# An image for the tasks of a cluster: each runs `python -m helpers.worker PAYLOAD`.
#
#   docker build -t registry.example/lessons:1 .
#
# Python and the packages must be those of the notebook that writes the payload. For GPUs, name an
# image with CUDA and this Python as the base: --build-arg BASE=…
ARG BASE=python:3.12-slim
FROM ${BASE} AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY helpers helpers
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel .

FROM ${BASE}
# The headers, a sixth of the image, and clang are needed only to compile custom operations.
RUN --mount=type=bind,from=wheel,source=/wheel,target=/wheel \
    pip install --no-cache-dir "$(echo /wheel/*.whl)[course]" && \
    cd "$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" && \
    rm -rf tensorflow/include clang
# helpers.backends.kubernetes runs its pods as this user, who owns the payload and the checkpoints.
RUN useradd --uid 1000 --create-home lessons
USER 1000
WORKDIR /home/lessons
CMD ["python", "-m", "helpers.worker", "--help"]
