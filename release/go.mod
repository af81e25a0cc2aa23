module github.com/holdfast-go/holdfast/release

go 1.25.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	github.com/holdfast-go/holdfast v0.0.0
	github.com/opencontainers/go-digest v1.0.0
	github.com/opencontainers/image-spec v1.1.1
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/crypto/x509roots/fallback v0.0.0-20260709184058-243e02a382f8
	golang.org/x/mod v0.38.0
)
