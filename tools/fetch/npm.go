package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/andybalholm/brotli"
)

// maxPackage is how much of a package is read, in bytes.
const maxPackage = 200 << 20

// registry is where packages of npm come from.
const registry = "https://registry.npmjs.org"

// npmPin pins one package.
type npmPin struct{ Name, Version, Integrity string }

// npmPackages downloads the pinned packages.
func (f *fetcher) npmPackages(ctx context.Context, t tool, dir string) error {
	pins, err := f.npmPins(t)
	if err != nil {
		return err
	}
	for _, p := range pins {
		if err := f.npmPackage(ctx, t, p, filepath.Join(dir, path.Base(p.Name))); err != nil {
			return err
		}
	}
	return nil
}

// nodeModules downloads the pinned packages to where Node.js finds them.
func (f *fetcher) nodeModules(ctx context.Context, t tool, dir string) error {
	if _, err := f.find("node", "Node.js 20 or newer, which runs it (Debian: nodejs)"); err != nil {
		return err
	}
	pins, err := f.npmPins(t)
	if err != nil {
		return err
	}
	for _, p := range pins {
		if err := f.npmPackage(ctx, t, p, filepath.Join(dir, "node_modules", filepath.FromSlash(p.Name))); err != nil {
			return err
		}
	}
	return nil
}

// browser downloads the pinned packages, and makes a program of the Chromium in one of them.
func (f *fetcher) browser(ctx context.Context, t tool, dir string) error {
	pins, err := f.npmPins(t)
	if err != nil {
		return err
	}
	for _, p := range pins {
		base := path.Base(p.Name)
		if base == "chromium" && !hasChromium() {
			if err := f.otherChromium(filepath.Join(dir, "chromium", "run")); err != nil {
				return err
			}
			continue
		}
		if err := f.npmPackage(ctx, t, p, filepath.Join(dir, base)); err != nil {
			return err
		}
		if base == "chromium" {
			if err := unpackChromium(filepath.Join(dir, base)); err != nil {
				return err
			}
		}
	}
	return nil
}

// npmPins reads the tool's pins.
func (f *fetcher) npmPins(t tool) ([]npmPin, error) {
	raw, err := os.ReadFile(f.pinned(t))
	if err != nil {
		return nil, err
	}
	var pins []npmPin
	if err := json.Unmarshal(raw, &pins); err != nil {
		return nil, fmt.Errorf("read %s: %w", t.pin, err)
	}
	return pins, nil
}

// npmPackage downloads a package of the tool into a folder.
func (f *fetcher) npmPackage(ctx context.Context, t tool, p npmPin, dir string) error {
	base := path.Base(p.Name)
	url := fmt.Sprintf("%s/%s/-/%s-%s.tgz", registry, p.Name, base, p.Version)
	f.printf("%s: downloading %s", t.name, url)
	return unpackNPM(ctx, url, p.Integrity, dir)
}

// hasChromium reports whether the package has a Chromium for this machine.
func hasChromium() bool { return runtime.GOOS == "linux" && runtime.GOARCH == "amd64" }

// otherChromium makes a program that starts the installed browser.
func (f *fetcher) otherChromium(program string) error {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := f.find(name, ""); err == nil {
			return script(program, "exec '"+found+"' \"$@\"")
		}
	}
	return errors.New("there is no chromium, chromium-browser or google-chrome on PATH: install Chromium (Debian: chromium)")
}

// unpackNPM unpacks a package of the npm registry into a folder.
func unpackNPM(ctx context.Context, url, integrity, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("download %s: %s", url, resp.Status)
	}
	packed, err := io.ReadAll(io.LimitReader(resp.Body, maxPackage))
	if err != nil {
		return fmt.Errorf("download %s: %w", url, err)
	}
	sum := sha512.Sum512(packed)
	if got := "sha512-" + base64.StdEncoding.EncodeToString(sum[:]); got != integrity {
		return fmt.Errorf("%s has the checksum %s, but %s is pinned", url, got, integrity)
	}
	zipped, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return err
	}
	return untar(zipped, dir, "package/")
}

// untar writes the files of an archive whose names begin with a prefix, without it.
func untar(archive io.Reader, dir, prefix string) error {
	for files := tar.NewReader(archive); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name, ok := strings.CutPrefix(strings.TrimPrefix(header.Name, "./"), prefix)
		if !ok || header.Typeflag != tar.TypeReg {
			continue
		}
		if !filepath.IsLocal(name) {
			return fmt.Errorf("the archive has the file %q outside of its folder", header.Name)
		}
		if err := write(filepath.Join(dir, filepath.FromSlash(name)), files, header.FileInfo().Mode().Perm()|0o600); err != nil {
			return err
		}
	}
}

func write(file string, from io.Reader, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	to, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// unpackChromium unpacks the browser of the package with its libraries, and writes the
// script that starts it.
func unpackChromium(dir string) error {
	for _, name := range []string{"chromium", "al2023.tar", "swiftshader.tar"} {
		packed := filepath.Join(dir, "bin", name+".br")
		from, err := os.Open(packed)
		if err != nil {
			return err
		}
		if name == "chromium" {
			err = write(filepath.Join(dir, name), brotli.NewReader(from), 0o755)
		} else {
			err = untar(brotli.NewReader(from), dir, "")
		}
		if err = errors.Join(err, from.Close()); err != nil {
			return fmt.Errorf("unpack %s: %w", packed, err)
		}
	}
	if err := os.RemoveAll(filepath.Join(dir, "bin")); err != nil {
		return err
	}
	return script(filepath.Join(dir, "run"),
		`dir=$(dirname "$(readlink -f "$0")")`, `export LD_LIBRARY_PATH="$dir/lib"`, `exec "$dir/chromium" "$@"`)
}

// script writes a program of shell commands.
func script(file string, lines ...string) error {
	return write(file, strings.NewReader("#!/bin/sh\n"+strings.Join(lines, "\n")+"\n"), 0o755)
}
