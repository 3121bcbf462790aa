module github.com/belfry-dev/belfry/dev/sbom

go 1.26.0

require github.com/CycloneDX/cyclonedx-go v0.12.0
