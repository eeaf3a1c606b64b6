package main

import (
	"archive/zip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// put writes a file and its folders.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// pack writes a zip with one executable file.
func pack(t *testing.T, path, name, text string) {
	t.Helper()
	put(t, path, "")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(f)
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(0o755)
	in, err := w.CreateHeader(header)
	if err == nil {
		_, err = in.Write([]byte(text))
	}
	if err == nil {
		err = w.Close()
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// files returns the rights and contents of all files.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = info.Mode().String() + " " + string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestUnpack_TakesTheProvidersOfOnePlatform(t *testing.T) {
	from, elsewhere := t.TempDir(), t.TempDir()
	aws := filepath.Join(from, "registry.terraform.io/hashicorp/aws")
	pack(t, filepath.Join(aws, "terraform-provider-aws_6.0.0_linux_arm64.zip"), "terraform-provider-aws_v6.0.0_x5", "arm")
	pack(t, filepath.Join(aws, "terraform-provider-aws_6.0.0_linux_amd64.zip"), "terraform-provider-aws_v6.0.0_x5", "amd")
	put(t, filepath.Join(aws, "index.json"), "{}")
	put(t, filepath.Join(aws, "6.0.0.json"), "{}")
	put(t, filepath.Join(from, "example.com/own/dns/1.0.0-beta.1/linux_arm64/terraform-provider-dns"), "own")
	put(t, filepath.Join(from, "example.com/own/dns/1.0.0-beta.1/darwin_arm64/terraform-provider-dns"), "other")
	put(t, filepath.Join(elsewhere, "terraform-provider-linked"), "linked")
	if err := os.MkdirAll(filepath.Join(from, "example.com/own/linked/2.0.0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(elsewhere, filepath.Join(from, "example.com/own/linked/2.0.0/linux_arm64")); err != nil {
		t.Skip("needs symbolic links")
	}
	to := t.TempDir()
	if err := unpack(from, to, "linux_arm64"); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"registry.terraform.io/hashicorp/aws/6.0.0/linux_arm64/terraform-provider-aws_v6.0.0_x5": "-rwxr-xr-x arm",
		"example.com/own/dns/1.0.0-beta.1/linux_arm64/terraform-provider-dns":                    "-rw-r--r-- own",
		"example.com/own/linked/2.0.0/linux_arm64/terraform-provider-linked":                     "-rw-r--r-- linked",
	}
	if diff := cmp.Diff(want, files(t, to)); diff != "" {
		t.Error(diff)
	}
}

func TestUnpack_RefusesWhatCannotServeThePlatform(t *testing.T) {
	other, escapes := t.TempDir(), t.TempDir()
	pack(t, filepath.Join(other, "registry.terraform.io/hashicorp/aws/terraform-provider-aws_6.0.0_linux_arm64.zip"), "provider", "arm")
	pack(t, filepath.Join(escapes, "registry.terraform.io/hashicorp/aws/terraform-provider-aws_6.0.0_linux_amd64.zip"), "../provider", "amd")
	for _, tt := range []struct{ name, from, want string }{
		{"nothing", t.TempDir(), "contains no providers"},
		{"another platform", other, "terraform providers mirror -platform=linux_amd64"},
		{"a path outside", escapes, "../provider"},
	} {
		if err := unpack(tt.from, t.TempDir(), "linux_amd64"); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
