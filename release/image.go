package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"path/filepath"

	godigest "github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	oci "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// platform holds the files of the image for one architecture, those of its archive.
type platform struct {
	arch  string
	texts []text
}

// layout is an OCI image layout (https://specs.opencontainers.org/image-spec/image-layout/): one file per blob, named by
// its digest.
type layout struct{ files []text }

// blob adds a blob and returns its descriptor.
func (l *layout) blob(mediaType string, content []byte) oci.Descriptor {
	sum := godigest.FromBytes(content)
	l.files = append(l.files, text{oci.ImageBlobsDir + "/" + sum.Algorithm().String() + "/" + sum.Encoded(), content})
	return oci.Descriptor{MediaType: mediaType, Digest: sum, Size: int64(len(content))}
}

// json adds a JSON blob and returns its descriptor.
func (l *layout) json(mediaType string, value any) (oci.Descriptor, error) {
	content, err := json.Marshal(value)
	return l.blob(mediaType, content), err
}

// writeImage writes the image for Linux and a file with its digest. The image contains only the tool, certificates and
// licences, and has no base image.
func (b *builder) writeImage() error {
	if len(b.images) == 0 {
		return nil
	}
	var all layout
	index := oci.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageIndex}
	for _, p := range b.images {
		manifest, err := b.imageFor(&all, p)
		if err != nil {
			return err
		}
		index.Manifests = append(index.Manifests, manifest)
	}
	// The digest of the index names the image for all architectures.
	image, err := all.json(oci.MediaTypeImageIndex, index)
	if err != nil {
		return err
	}
	name := "holdfast:" + b.version
	image.Annotations = map[string]string{
		oci.AnnotationRefName: name, "io.containerd.image.name": "localhost/" + name,
	}
	top, err := json.Marshal(oci.Index{Versioned: index.Versioned, MediaType: index.MediaType, Manifests: []oci.Descriptor{image}})
	if err != nil {
		return err
	}
	mark, err := json.Marshal(oci.ImageLayout{Version: oci.ImageLayoutVersion})
	if err != nil {
		return err
	}
	all.files = append(all.files, text{oci.ImageIndexFile, top}, text{oci.ImageLayoutFile, mark})
	archive, err := packTar(all.files, b.date)
	if err != nil {
		return err
	}
	fmt.Printf("the image is holdfast@%s\n", image.Digest)
	base := filepath.Join(b.dir, "holdfast_"+b.version)
	if err := writeFile(base+digest, []byte(image.Digest.String()+"\n")); err != nil {
		return err
	}
	return writeFile(base+imaged, archive)
}

// imageFor adds the image for one architecture to a layout and returns its descriptor.
func (b *builder) imageFor(all *layout, p platform) (oci.Descriptor, error) {
	layer, err := packTar(b.inImage(p), b.date)
	if err != nil {
		return oci.Descriptor{}, err
	}
	compressed, err := compress(layer)
	if err != nil {
		return oci.Descriptor{}, err
	}
	system := oci.Platform{OS: linux, Architecture: p.arch}
	config, err := all.json(oci.MediaTypeImageConfig, oci.Image{
		Created: &b.date, Platform: system,
		Config: oci.ImageConfig{
			User: "65532:65532", Entrypoint: []string{"/usr/local/bin/holdfast"},
			Labels: map[string]string{
				oci.AnnotationVersion: b.version, oci.AnnotationRevision: b.commit, oci.AnnotationSource: "https://" + ours, oci.AnnotationLicenses: "Apache-2.0",
			},
		},
		RootFS:  oci.RootFS{Type: "layers", DiffIDs: []godigest.Digest{godigest.FromBytes(layer)}},
		History: []oci.History{{Created: &b.date, CreatedBy: "make release VERSION=" + b.version}},
	})
	if err != nil {
		return oci.Descriptor{}, err
	}
	manifest, err := all.json(oci.MediaTypeImageManifest, oci.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: oci.MediaTypeImageManifest,
		Config: config, Layers: []oci.Descriptor{all.blob(oci.MediaTypeImageLayerGzip, compressed)},
	})
	manifest.Platform = &system
	return manifest, err
}

// inImage returns the files of the image.
func (b *builder) inImage(p platform) []text {
	files := []text{{"usr/local/bin/holdfast", p.texts[0].content}, {"etc/ssl/certs/ca-certificates.crt", certificates()}}
	for _, t := range p.texts {
		switch t.name {
		case licence, "NOTICE", "THIRD-PARTY-LICENSES":
			files = append(files, text{"licenses/" + t.name, t.content})
		}
	}
	return files
}

// certificates returns the root certificates that Mozilla trusts, in PEM. It omits those that Mozilla trusts under conditions,
// because PEM cannot express these.
func certificates() []byte {
	var all []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			all = append(all, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return all
}
