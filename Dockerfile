# The image of the five services; the command chooses one of them.
#   docker build --tag dovetail:1 --build-arg COMMIT="$(git rev-parse HEAD)" .
# The target `local` also contains the AWS emulator and the embedded cluster; docker-compose.yml builds it.
#   docker build --target local --tag dovetail:local .
# Behind a proxy with a certificate authority of its own:
#   docker build --secret id=ca_bundle,src=/path/to/ca.pem --tag dovetail:1 .
# Needs BuildKit, the default since Docker 23. There is no `syntax` line, so only the base image is pulled.
ARG BASE_IMAGE=python:3.11-slim

FROM ${BASE_IMAGE} AS wheel
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

# The last step of each venv removes installers and test packages, so that the images do not contain them.
FROM ${BASE_IMAGE} AS venv
COPY requirements.lock /build/
RUN --mount=type=secret,id=ca_bundle,required=false \
    python3 -m venv /opt/venv \
    && if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
    && /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
       --require-hashes --requirement /build/requirements.lock \
    && find /opt/venv/lib -type d -name tests -prune -exec rm -r {} +

FROM venv AS local-venv
COPY requirements-local.lock /build/
RUN --mount=type=secret,id=ca_bundle,required=false \
    if [ -s /run/secrets/ca_bundle ]; then export PIP_CERT=/run/secrets/ca_bundle; fi \
    && /opt/venv/bin/python -m pip install --no-cache-dir --disable-pip-version-check \
       --require-hashes --requirement /build/requirements-local.lock \
    && find /opt/venv/lib -type d -name tests -prune -exec rm -r {} +
COPY --from=wheel /wheels /wheels
RUN /opt/venv/bin/python -m pip install --disable-pip-version-check --no-index --no-deps /wheels/*.whl \
    && /opt/venv/bin/python -m pip uninstall --quiet --yes setuptools pip

FROM venv AS services-venv
COPY --from=wheel /wheels /wheels
RUN /opt/venv/bin/python -m pip install --disable-pip-version-check --no-index --no-deps /wheels/*.whl \
    && /opt/venv/bin/python -m pip uninstall --quiet --yes setuptools pip

FROM ${BASE_IMAGE} AS program
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    MALLOC_ARENA_MAX=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    AWS_EC2_METADATA_DISABLED=true
WORKDIR /app
ARG COMMIT=
ENV DOVETAIL_COMMIT=${COMMIT}
EXPOSE 8080
# Liveness of the event loop. Kubernetes uses its own probes, and docker-compose.yml checks readiness.
HEALTHCHECK --interval=10s --timeout=4s --start-period=30s --retries=6 \
    CMD ["python", "-ISc", "import os, socket as s; c = s.create_connection(('127.0.0.1', int(os.environ.get('STATUS_PORT', 8080))), 3); c.sendall(b'GET /healthz HTTP/1.0\\r\\n\\r\\n'); raise SystemExit(b' 200 ' not in c.recv(64))"]
# Default: all five services in one process. docker-compose.yml and deploy/kubernetes run one service per container.
CMD ["python", "-m", "services"]

# The venv's interpreter is a link to this image's own, so all stages must start from the same base.
FROM program AS local
COPY --from=local-venv /opt/venv /opt/venv
# A named volume that is mounted at /var/run/dovetail takes over this owner: the cluster writes its kubeconfig there.
RUN mkdir -p /var/run/dovetail && chown 65532:65532 /var/run/dovetail \
    && ln -s "$(python -c 'import deploy; print(*deploy.__path__)')" deploy
USER 65532:65532

FROM program AS services
COPY --from=services-venv /opt/venv /opt/venv
USER 65532:65532
