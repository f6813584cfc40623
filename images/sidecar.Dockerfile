# The door of one tool; no ClickHouse client, no policy engine. Built by `make images`, which brings the wheels; BASE needs python3 and nothing else.
ARG BASE=docker.io/library/python:3.11-slim-bookworm

FROM ${BASE} AS build
COPY build/images/wheels /wheels
COPY requirements/sidecar.lock /app.lock
# pip runs from its own wheel and is never installed; every file is held against the lock's hashes.
RUN python3 -m venv --without-pip /opt/licet \
 && pip="python3 $(echo /wheels/pip-*.whl)/pip --python /opt/licet/bin/python install --no-index --no-deps" \
 && $pip --require-hashes --find-links /wheels -r /app.lock \
 && $pip /wheels/licet-*.whl \
 && cd /opt/licet/lib/python3*/site-packages && rm -rf decider audit

FROM ${BASE}
COPY --from=build /opt/licet /opt/licet
ENV PATH=/opt/licet/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
USER 64002:64002
CMD ["licet", "sidecar", "serve"]
