# One image for every service of docker-compose.yml: `kernelmill …` is its command line.
#   docker build -t kernelmill .
# With CUDA: --build-arg TORCH_INDEX=https://pypi.org/simple --build-arg EXTRAS=service,triton

FROM python:3.12-slim-bookworm AS builder
ARG TORCH=2.13.0
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=service
RUN python -m venv /opt/venv
ENV PATH=/opt/venv/bin:$PATH PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
# First, and alone: it is the largest part, and changes least.
RUN pip install --index-url "$TORCH_INDEX" "torch==$TORCH"
COPY . /src
RUN pip install "/src[$EXTRAS]"

FROM python:3.12-slim-bookworm
# What solutions are compiled with, and what filters their system calls. bubblewrap and ninja come as wheels.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends g++ libseccomp2 \
    && rm -rf /var/lib/apt/lists/*
# Not below /opt/kernelmill: there the sandbox shows the judge's code. A new volume takes over a folder's owner.
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/kernelmill --shell /usr/sbin/nologin kernelmill \
    && install -d -o kernelmill -g kernelmill -m 0700 /var/lib/kernelmill /var/lib/kernelmill/state \
        /var/lib/kernelmill/cache /var/lib/kernelmill/spool
COPY --from=builder /opt/venv /opt/venv
COPY docker/unmask.sh /usr/local/bin/unmask
ENV PATH=/opt/venv/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    KERNELMILL_STATE=/var/lib/kernelmill/state \
    KERNELMILL_CACHE=/var/lib/kernelmill/cache
USER 10001:10001
WORKDIR /var/lib/kernelmill
EXPOSE 8000
CMD ["kernelmill", "serve", "--host", "0.0.0.0"]
