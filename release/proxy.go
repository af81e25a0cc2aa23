package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// publish writes the published modules, in a version, into a directory that the go command
// can use as a module proxy (go help goproxy): GOPROXY=file://DIR.
func (r *repository) publish(ctx context.Context, version, date, dir string) error {
	for _, m := range r.published() {
		if err := r.publishModule(ctx, m, version, date, dir); err != nil {
			return err
		}
	}
	return nil
}

func (r *repository) publishModule(ctx context.Context, m mod, version, date, dir string) error {
	escaped, err := module.EscapePath(m.path())
	if err != nil {
		return err
	}
	base := filepath.Join(dir, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(base, 0o755); err != nil { //nolint:gosec // for all to read
		return err
	}
	gomod, err := r.requiring(m, version)
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct{ Version, Time string }{version, date})
	if err != nil {
		return err
	}
	for name, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": gomod} {
		if err := os.WriteFile(filepath.Join(base, name), text, 0o644); err != nil { //nolint:gosec // for all to read
			return err
		}
	}
	files, err := r.zipped(ctx, m, gomod)
	if err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(base, version+".zip"))
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := zip.Create(archive, module.Version{Path: m.path(), Version: version}, files); err != nil {
		return err
	}
	return archive.Close()
}

// zipped are the files of a module's zip. One that has no LICENSE of its own gets that of the
// repository, as the go command has it.
func (r *repository) zipped(ctx context.Context, m mod, gomod []byte) ([]zip.File, error) {
	paths, err := r.files(ctx, m)
	if err != nil {
		return nil, err
	}
	var files []zip.File
	licensed := false
	for _, path := range paths {
		file := zipFile{path: strings.TrimPrefix(path, strings.TrimPrefix(m.dir+"/", "./")), disk: filepath.Join(r.dir, path)}
		switch file.path {
		case "go.mod":
			file.text = gomod
		case "LICENSE":
			licensed = true
		}
		files = append(files, file)
	}
	if !licensed {
		files = append(files, zipFile{path: "LICENSE", disk: filepath.Join(r.dir, "LICENSE")})
	}
	return files, nil
}

// zipFile is a file on disk, or another text in its place.
type zipFile struct {
	path, disk string
	text       []byte
}

// Path implements [zip.File].
func (f zipFile) Path() string { return f.path }

// Lstat implements [zip.File].
func (f zipFile) Lstat() (os.FileInfo, error) {
	info, err := os.Lstat(f.disk)
	if err != nil || f.text == nil {
		return info, err
	}
	return sized{info, int64(len(f.text))}, nil
}

// Open implements [zip.File].
func (f zipFile) Open() (io.ReadCloser, error) {
	if f.text == nil {
		return os.Open(f.disk)
	}
	return io.NopCloser(strings.NewReader(string(f.text))), nil
}

// sized is a file of another size.
type sized struct {
	os.FileInfo

	size int64
}

// Size implements [os.FileInfo].
func (s sized) Size() int64 { return s.size }
