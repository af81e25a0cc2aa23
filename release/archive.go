package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// mode is that of a file in an archive: the program comes first, and is all that is run.
func mode(at int) fs.FileMode {
	if at == 0 {
		return 0o755
	}
	return 0o644
}

func (b *builder) writeTar(path, under string, texts []text) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	compressed, err := gzip.NewWriterLevel(file, gzip.BestCompression)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(compressed)
	for i, t := range texts {
		header := &tar.Header{
			Name: under + "/" + t.name, Mode: int64(mode(i)), Size: int64(len(t.content)), ModTime: b.date, Format: tar.FormatPAX,
		}
		if err := archive.WriteHeader(header); err != nil {
			return err
		}
		if _, err := archive.Write(t.content); err != nil {
			return err
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return compressed.Close()
}

func (b *builder) writeZip(path, under string, texts []text) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := zip.NewWriter(file)
	for i, t := range texts {
		header := &zip.FileHeader{Name: under + "/" + t.name, Method: zip.Deflate, Modified: b.date}
		header.SetMode(mode(i))
		w, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		if _, err := w.Write(t.content); err != nil {
			return err
		}
	}
	return archive.Close()
}

// writeChecksums writes SHA256SUMS, which sha256sum -c reads, of all files of a directory.
func writeChecksums(dir string) error {
	var sums strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(content), filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(sums.String()), 0o644) //nolint:gosec // for all to read
}

// writeMaterials writes the bill of materials of a binary, in the format of CycloneDX: the modules
// that the linker says are in it.
func (b *builder) writeMaterials(path string, info *buildinfo.BuildInfo, program []byte) (err error) {
	sum := sha256.Sum256(program)
	main := component(info.Main.Path, info.Main.Version, hex.EncodeToString(sum[:]))
	main.Type = cdx.ComponentTypeApplication
	std := component("std", strings.TrimPrefix(info.GoVersion, "go"), "")
	components, direct := []cdx.Component{std}, []string{std.BOMRef}
	for _, dep := range info.Deps {
		hash, err := sha256Of(dep.Sum)
		if err != nil {
			return fmt.Errorf("%s: %w", dep.Path, err)
		}
		c := component(dep.Path, dep.Version, hash)
		components, direct = append(components, c), append(direct, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: b.date.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &direct}}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return cdx.NewBOMEncoder(file, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
}

// component is a module, with a SHA-256 if there is one.
func component(path, version, hash string) cdx.Component {
	purl := "pkg:golang/" + path + "@" + version
	c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: purl}
	if hash != "" {
		c.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hash}}
	}
	return c
}

// sha256Of is the hash in a sum of go.sum.
func sha256Of(sum string) (string, error) {
	encoded, ok := strings.CutPrefix(sum, "h1:")
	if !ok {
		return "", fmt.Errorf("the checksum %q is not known", sum)
	}
	raw, err := base64.StdEncoding.DecodeString(encoded)
	return hex.EncodeToString(raw), err
}

// moduleDir is where go mod download -json says that a module is.
func moduleDir(answer string) (string, error) {
	var found struct{ Dir string }
	if err := json.Unmarshal([]byte(answer), &found); err != nil {
		return "", err
	}
	return found.Dir, nil
}
