package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// mode returns the mode of a file in an archive. Only the program is executable.
func mode(name string) fs.FileMode {
	if base := path.Base(name); base == "holdfast" || base == "holdfast.exe" {
		return 0o755
	}
	return 0o644
}

// Suffixes of the files of a release: archives, bills of materials, the image and its digest.
const (
	packed = ".tar.gz"
	zipped = ".zip"
	billed = ".cdx.json"
	imaged = "_image.tar"
	digest = "_image.digest"
)

// isArchive reports whether unpack can read a file.
func isArchive(name string) bool {
	return strings.HasSuffix(name, packed) || strings.HasSuffix(name, zipped) || strings.HasSuffix(name, imaged)
}

// targetOf returns the system in the name of an archive.
func targetOf(name string) (t target, ok bool) {
	stem := strings.TrimSuffix(strings.TrimSuffix(name, zipped), packed)
	parts := strings.Split(stem, "_")
	if stem == name || len(parts) != 4 {
		return target{}, false
	}
	return target{parts[2], parts[3]}, true
}

// writeFile writes a file of a release.
func writeFile(path string, content []byte) error {
	return os.WriteFile(path, content, 0o644) //nolint:gosec // for all to read, in the directory that was asked for
}

// packTar returns a tar archive. All its files have the same date.
func packTar(texts []text, date time.Time) ([]byte, error) {
	var all bytes.Buffer
	archive := tar.NewWriter(&all)
	for _, t := range texts {
		header := &tar.Header{Name: t.name, Mode: int64(mode(t.name)), Size: int64(len(t.content)), ModTime: date, Format: tar.FormatPAX}
		if err := archive.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := archive.Write(t.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}

// compress returns gzip data, with neither name nor date in its header.
func compress(content []byte) ([]byte, error) {
	var all bytes.Buffer
	w, err := gzip.NewWriterLevel(&all, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}

// packZip returns a zip archive. All its files have the same date.
func packZip(texts []text, date time.Time) ([]byte, error) {
	var all bytes.Buffer
	archive := zip.NewWriter(&all)
	for _, t := range texts {
		header := &zip.FileHeader{Name: t.name, Method: zip.Deflate, Modified: date}
		header.SetMode(mode(t.name))
		w, err := archive.CreateHeader(header)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(t.content); err != nil {
			return nil, err
		}
	}
	if err := archive.Close(); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}

// unpack returns the files in an archive. It writes none of them to disk.
func unpack(path string) ([]text, error) {
	content, err := os.ReadFile(path) //nolint:gosec // in the directory that was asked for
	if err != nil {
		return nil, err
	}
	if strings.HasSuffix(path, zipped) {
		return unpackZip(content)
	}
	var plain io.Reader = bytes.NewReader(content)
	if strings.HasSuffix(path, packed) {
		if plain, err = gzip.NewReader(plain); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	var all []text
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, text{header.Name, content})
	}
}

// unpackZip returns the files in a zip archive.
func unpackZip(content []byte) ([]text, error) {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	var all []text
	for _, entry := range archive.File {
		content, err := fs.ReadFile(archive, entry.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, text{entry.Name, content})
	}
	return all, nil
}

// writeChecksums writes SHA256SUMS, which sha256sum -c reads, of all files of a directory.
func writeChecksums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var sums strings.Builder
	for _, entry := range entries {
		sum, err := sumOf(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, entry.Name())
	}
	return writeFile(filepath.Join(dir, checksums), []byte(sums.String()))
}

// materials returns the bill of materials of a program, as CycloneDX 1.6 JSON. It lists the modules that the linker
// recorded.
func materials(info *buildinfo.BuildInfo, program []byte, date time.Time) ([]byte, error) {
	sum := sha256.Sum256(program)
	main := component(info.Main.Path, info.Main.Version, hex.EncodeToString(sum[:]))
	main.Type = cdx.ComponentTypeApplication
	std := component("std", strings.TrimPrefix(info.GoVersion, "go"), "")
	components, direct := []cdx.Component{std}, []string{std.BOMRef}
	for _, dep := range info.Deps {
		hash, err := sha256Of(dep.Sum)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", dep.Path, err)
		}
		c := component(dep.Path, dep.Version, hash)
		components, direct = append(components, c), append(direct, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: date.Format(time.RFC3339), Component: &main}
	bom.Components = &components
	bom.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &direct}}
	var all bytes.Buffer
	err := cdx.NewBOMEncoder(&all, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6)
	return all.Bytes(), err
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
	var found struct {
		Dir string `json:"Dir"`
	}
	if err := json.Unmarshal([]byte(answer), &found); err != nil {
		return "", err
	}
	return found.Dir, nil
}
