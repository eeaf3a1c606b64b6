package main

import (
	"archive/zip"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/terrapulse/terrapulse/internal/aws/providercache/registrytest"
	"github.com/terrapulse/terrapulse/internal/record/state"
	"github.com/terrapulse/terrapulse/internal/testtools"
)

// BenchmarkProviders measures 25 tasks in a container that share a provider of 100 MB: with a
// configuration that makes Terraform install it for each task, and as containers do it. It needs 3 GB
// of disk.
func BenchmarkProviders(b *testing.B) {
	if testing.Short() {
		b.Skip("takes minutes")
	}
	const tasks, size = 25, 100 << 20
	registry := registrytest.Start(b)
	p := registry.Add("time", size-14<<20) // the provider itself has 14 MB
	s := newStack(b, s3Backend("S3"), slices.Repeat([]string{needsTime}, tasks)...)
	environment := throughRegistry(b, registry)

	dir := b.TempDir()
	version := filepath.Join("registry.terraform.io", "hashicorp", "time")
	packed, image := filepath.Join(dir, "packed"), filepath.Join(dir, "image")
	link(b, p.Archive, filepath.Join(packed, version, filepath.Base(p.Archive)))
	unzip(b, p.Archive, filepath.Join(image, "terraform", "plugins", version, p.Version, runtime.GOOS+"_"+runtime.GOARCH))
	rc := func(name, installation string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("provider_installation {\n"+installation+"\n}\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		return "TF_CLI_CONFIG_FILE=" + path
	}
	for i, how := range []struct{ name, variable string }{
		{"downloaded for each task", rc("direct.rc", "  direct {\n  }")},
		{"packed mirror, unpacked for each task", rc("packed.rc", fmt.Sprintf("  filesystem_mirror {\n    path = %q\n  }", packed))},
		{"unpacked mirror in the image", "XDG_DATA_DIRS=" + image},
		{"shared, the bucket is empty", ""},
		{"shared, from the bucket", ""},
	} {
		launch := fmt.Sprintf("l%d", i)
		s.launch(launch)
		work, downloads := filepath.Join(b.TempDir(), "work"), registry.Requests(".zip")
		var out testtools.Output
		cmd := s.container(launch, &out, environment...)
		cmd.Env = append(cmd.Env, "TERRAPULSE_WORK="+work)
		if how.variable != "" {
			cmd.Env = append(cmd.Env, how.variable)
		}
		began := time.Now()
		if err := cmd.Run(); err != nil {
			b.Fatalf("%v\n%s", err, &out)
		}
		took := time.Since(began)
		for t := range tasks {
			if run := s.run(launch, fmt.Sprintf("t%d", t)); run.State != state.RunSucceeded {
				b.Fatalf("%+v\n%s", run, &out)
			}
		}
		fmt.Printf("providers: %d tasks, one provider of 100 MB, %s: %s, %s of CPU, %d downloads, %.1f GB on disk\n", tasks, how.name,
			took.Round(100*time.Millisecond), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Round(100*time.Millisecond),
			registry.Requests(".zip")-downloads, float64(bytesIn(b, work))/1e9)
		if err := os.RemoveAll(work); err != nil {
			b.Fatal(err)
		}
	}
}

// link links to a file under another path.
func link(b *testing.B, from, to string) {
	b.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.Link(from, to); err != nil {
		b.Fatal(err)
	}
}

// unzip unpacks an archive with one program.
func unzip(b *testing.B, archive, to string) {
	b.Helper()
	r, err := zip.OpenReader(archive)
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	if err := os.MkdirAll(to, 0o755); err != nil {
		b.Fatal(err)
	}
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			b.Fatal(err)
		}
		out, err := os.OpenFile(filepath.Join(to, filepath.Base(f.Name)), os.O_CREATE|os.O_WRONLY, 0o755)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := io.Copy(out, in); err != nil {
			b.Fatal(err)
		}
		_, _ = in.Close(), out.Close()
	}
}

// bytesIn returns the size of all files below a folder.
func bytesIn(b *testing.B, dir string) (size int64) {
	b.Helper()
	err := filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		info, err := entry.Info()
		size += info.Size()
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	return size
}
