# The tool in an image that has nothing else but certificates. docs/deploy.md says what it is good for.
#
#   docker build --build-arg VERSION=v0.9.0 --build-arg COMMIT=$(git rev-parse HEAD) -t holdfast .

FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS
ARG TARGETARCH
ARG VERSION
ARG COMMIT
ARG DATE
WORKDIR /src
COPY . .
RUN cli=github.com/holdfast-go/holdfast/cmd/holdfast/internal/cli; \
    CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH tools/alone cmd/holdfast go build -trimpath -buildvcs=false \
    -ldflags "-s -w -X $cli.release=$VERSION -X $cli.commit=$COMMIT -X $cli.date=$DATE" -o /holdfast .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /holdfast /usr/local/bin/holdfast
COPY LICENSE NOTICE /licenses/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/holdfast"]
