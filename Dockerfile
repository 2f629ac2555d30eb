# Two stages: build the wheel, then install it with the locked dependencies as a user without rights.
FROM python:3.11-slim AS build
WORKDIR /src
COPY . .
RUN pip install --no-cache-dir --require-hashes -r requirements.lock \
 && python -m build --wheel --no-isolation --outdir /wheels \
 && uv pip compile --quiet --generate-hashes --python-version 3.11 --constraint requirements.lock pyproject.toml \
      --output-file /wheels/runtime.lock

FROM python:3.11-slim
RUN useradd --system --uid 10001 --create-home --home-dir /var/lib/turnlog turnlog
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir --require-hashes -r /wheels/runtime.lock \
 && pip install --no-cache-dir --no-deps /wheels/*.whl \
 && rm -rf /wheels
USER turnlog
ENV TURNLOG_DATA_DIR=/var/lib/turnlog/data PYTHONDONTWRITEBYTECODE=1
VOLUME /var/lib/turnlog
EXPOSE 18790
STOPSIGNAL SIGTERM
ENTRYPOINT ["turnlog"]
CMD ["serve"]
