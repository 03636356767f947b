# svc with the toolchain for JavaScript, for amd64 and arm64: docker build --tag svc .
# docs/guides/operate/containers.md explains it. tests/test_container.py follows these steps without Docker.

FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3 python3-venv
COPY . /src
RUN python3 -m venv /opt/svc && /opt/svc/bin/pip install --no-cache-dir '/src[fleet,notify,otlp]'

FROM debian:bookworm-slim
RUN apt-get update && apt-get install --yes --no-install-recommends ca-certificates python3 && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/svc /opt/svc
RUN useradd --uid 1000 --create-home --home-dir /srv/svc svc && install -d -o svc -g svc -m 700 /data
ENV PATH=/opt/svc/bin:/usr/sbin:/usr/bin:/sbin:/bin SVC_HOME=/srv/svc/.svc
USER 1000:1000
WORKDIR /srv/svc
RUN svc new js --template js && svc -C js doctor --fix && rm -r js .npm
VOLUME /data
EXPOSE 443 8081
HEALTHCHECK --start-period=15m CMD ["python3", "-c", "import json, urllib.request as r; r.urlopen(json.load(open('/data/control.json'))['url'] + '/v1/health', timeout=5)"]
ENTRYPOINT ["svc"]
CMD ["serve", "--data", "/data"]
