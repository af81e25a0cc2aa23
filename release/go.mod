module github.com/holdfast-go/holdfast/release

go 1.25.0

require (
	github.com/CycloneDX/cyclonedx-go v0.12.0
	golang.org/x/mod v0.38.0
)

require (
	github.com/holdfast-go/holdfast v0.0.0
	go.yaml.in/yaml/v3 v3.0.6
)
