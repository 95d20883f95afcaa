# Images of Dovetail. Without a target: all six services and the commands for a cluster; the command chooses the service.
#   docker build --tag dovetail:1 --build-arg COMMIT="$(git rev-parse HEAD)" .
# The targets `watcher`, `scheduler`, `launcher`, `terminator`, `interruption` and `console` contain one service each.
# The target `local` also contains the AWS emulator and the embedded cluster; docker-compose.yml builds it.
#   docker build --target scheduler --tag dovetail-scheduler:1 .
# For several architectures, on one machine and without QEMU, because no program of the target is run:
#   docker buildx build --platform linux/amd64,linux/arm64 --target scheduler .
# Behind a proxy with a certificate authority of its own:
#   docker build --secret id=ca_bundle,src=/path/to/ca.pem --tag dovetail:1 .
# Needs BuildKit, the default since Docker 23. There is no `syntax` line, so only the base image is pulled.
#
# The digest names an index of all architectures. `python -m release.base_image` looks for a newer one and writes it here.
ARG BASE_IMAGE=docker.io/library/python:3.11-slim-trixie@sha256:90744cff8f32887f075c47d747a173ff333e9e98801667af93c357fa9f5e28ff
# The same image for the architecture of the builder.
ARG BUILDER_IMAGE=${BASE_IMAGE}

# Where files are taken from.
FROM ${BASE_IMAGE} AS base

# Where programs run.
FROM --platform=${BUILDPLATFORM} ${BUILDER_IMAGE} AS builder

FROM builder AS wheel
WORKDIR /build
COPY requirements-build.lock ./
RUN --mount=type=secret,id=ca_bundle,required=false \
    python3 -m venv /opt/build \
    && if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
    && /opt/build/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
       --require-hashes --requirement requirements-build.lock
COPY pyproject.toml README.md LICENSE ./
COPY services services
COPY shared shared
COPY local local
COPY cli cli
COPY deploy deploy
RUN /opt/build/bin/python -m pip wheel --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir /wheels .

FROM builder AS venv
RUN python3 -m venv --without-pip /opt/venv
COPY release/image /build/release/image
ENV PYTHONPATH=/build

FROM venv AS local-venv
# In each stage that uses it: Podman does not hand it on.
ARG TARGETARCH
COPY requirements-local.lock /build/
RUN --mount=type=secret,id=ca_bundle,required=false \
    if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
    && python3 -m release.image.install /opt/venv ${TARGETARCH} /build/requirements-local.lock
COPY --from=wheel /wheels /wheels
RUN --mount=type=bind,from=base,source=/,target=/base \
    python3 -m pip --python /opt/venv/bin/python3 install --no-compile --no-index --no-deps /wheels/*.whl \
    && python3 -m release.image.prune /opt/venv --all-models \
    && python3 -m release.image.root /base /opt/venv /root-of-image \
    && mkdir -p /root-of-image/app /empty \
    && ln -s "$(/opt/venv/bin/python3 -c 'import deploy; print(*deploy.__path__)')" /root-of-image/app/deploy

FROM venv AS services-venv
ARG TARGETARCH
COPY requirements.lock /build/
RUN --mount=type=secret,id=ca_bundle,required=false \
    if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
    && python3 -m release.image.install /opt/venv ${TARGETARCH} /build/requirements.lock
COPY --from=wheel /wheels /wheels
RUN --mount=type=bind,from=base,source=/,target=/base \
    python3 -m pip --python /opt/venv/bin/python3 install --no-compile --no-index --no-deps /wheels/*.whl \
    && python3 -m release.image.prune /opt/venv --apart /apart \
    && python3 -m release.image.root /base /opt/venv /root-of-image

# From here on no stage has a shell: an image is the interpreter, the libraries that it needs, and one environment.
FROM scratch AS program
ENV PATH=/opt/venv/bin \
    LANG=C.UTF-8 \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    AWS_EC2_METADATA_DISABLED=true
WORKDIR /app
COPY release/image/probe.py /opt/probe.py
EXPOSE 8080
# Liveness of the event loop. Kubernetes uses its own probes, and docker-compose.yml checks readiness.
HEALTHCHECK --interval=10s --timeout=4s --start-period=30s --retries=6 \
    CMD ["python", "-IS", "/opt/probe.py", "/healthz"]

FROM program AS local
COPY --from=local-venv /root-of-image /
COPY --from=local-venv /opt/venv /opt/venv
# A named volume that is mounted at /var/run/dovetail takes over this owner: the cluster writes its kubeconfig there.
COPY --from=local-venv --chown=65532:65532 /empty /var/run/dovetail
# The same for the scheduler's decision records.
COPY --from=local-venv --chown=65532:65532 /empty /var/lib/dovetail/records
ARG COMMIT=
ENV DOVETAIL_COMMIT=${COMMIT}
USER 65532:65532

# Every service but the scheduler works without the packages of the solver, which are half of the environment, and all
# but scheduler and launcher without those that evaluate expressions.
FROM program AS without-solver
COPY --from=services-venv /root-of-image /
COPY --from=services-venv /opt/venv /opt/venv
ARG COMMIT=
ENV DOVETAIL_COMMIT=${COMMIT}
USER 65532:65532

FROM without-solver AS watcher
CMD ["python", "-m", "services.watcher"]

FROM without-solver AS launcher
COPY --from=services-venv /apart/expressions /opt/venv
CMD ["python", "-m", "services.launcher"]

FROM without-solver AS terminator
CMD ["python", "-m", "services.terminator"]

FROM without-solver AS interruption
CMD ["python", "-m", "services.interruption"]

FROM without-solver AS console
CMD ["python", "-m", "services.console"]

FROM without-solver AS scheduler
COPY --from=services-venv /apart/expressions /opt/venv
COPY --from=services-venv /apart/solver /opt/venv
CMD ["python", "-m", "services.scheduler"]

# All services in one process. docker-compose.yml and deploy/kubernetes run one service per container.
FROM scheduler AS services
CMD ["python", "-m", "services"]
