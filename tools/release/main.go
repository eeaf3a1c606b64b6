// Command release packages template.yaml for people without a checkout. It builds the functions as
// `sam build` does, and writes into a folder:
//
//	template.yaml                 the template, with the functions' places in a bucket
//	NAME-DIGEST.zip               each function and layer
//	NAME.cdx.json                 the modules in each function, in CycloneDX's format
//
// All files but the lists of modules belong into a bucket under VERSION/. The bucket must be in the
// region of the stack, so its name usually contains ${AWS::Region}.
//
// Usage, from the top of the checkout:
//
//	go run ./tools/release -version=v1.2.3 -to=FOLDER [-bucket=NAME] [-terraform-image=IMAGE@DIGEST]
package main

import (
	"archive/zip"
	"cmp"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

func main() {
	var r release
	flag.StringVar(&r.version, "version", "", "the release, such as v1.2.3")
	flag.StringVar(&r.folder, "to", "", "the folder to write")
	flag.StringVar(&r.bucket, "bucket", "terrapulse-${AWS::Region}", "the bucket that will hold the functions, as in !Sub")
	flag.StringVar(&r.image, "terraform-image", "", "the default of the parameter TerraformImage, with its digest; without it, the template names a tag")
	flag.Parse()
	if err := r.write(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// release is the packaged template and its functions.
type release struct {
	version, folder, bucket string
	image                   string // of Terraform, with its digest; "" keeps that of the template
}

// digested is the form of an image that cannot change.
var digested = regexp.MustCompile(`^[^\s@]+@sha256:[0-9a-f]{64}$`)

func (r release) write() error {
	if r.version == "" || r.folder == "" {
		return errors.New("set -version and -to")
	}
	if r.image != "" && !digested.MatchString(r.image) {
		return fmt.Errorf("-terraform-image is %s: name it with its digest, such as public.ecr.aws/hashicorp/terraform@sha256:DIGEST", r.image)
	}
	text, err := os.ReadFile("template.yaml")
	if err != nil {
		return fmt.Errorf("%w: run this at the top of the checkout", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("read template.yaml: %w", err)
	}
	template := resolved(document.Content[0])
	// Files of an older release must not stay.
	if err := cmp.Or(os.RemoveAll(r.folder), os.MkdirAll(r.folder, 0o755)); err != nil {
		return err
	}
	resources := value(template, "Resources")
	for i := 1; i < len(resources.Content); i += 2 {
		if err := r.pack(resources.Content[i-1].Value, resources.Content[i]); err != nil {
			return fmt.Errorf("package %s: %w", resources.Content[i-1].Value, err)
		}
	}
	remove(value(template, "Globals", "Function"), "CodeUri")
	value(template, "Outputs", "Version", "Value").SetString(r.version)
	if r.image != "" {
		value(template, "Parameters", "TerraformImage", "Default").SetString(r.image)
	}

	file, err := os.Create(filepath.Join(r.folder, "template.yaml"))
	if err != nil {
		return err
	}
	encoder := yaml.NewEncoder(file)
	encoder.SetIndent(2)
	return cmp.Or(encoder.Encode(template), encoder.Close(), file.Close())
}

// pack builds a resource that `sam build` would build, and names its place in the bucket instead.
func (r release) pack(name string, resource *yaml.Node) error {
	method := value(resource, "Metadata", "BuildMethod")
	if method == nil {
		return nil
	}
	if method.Value != "makefile" {
		return fmt.Errorf("its BuildMethod is %s: only makefile is known here", method.Value)
	}
	built, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(built)
	build := exec.Command("make", "--silent", "build-"+name, "ARTIFACTS_DIR="+built, "VERSION="+r.version)
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return err
	}
	file, err := r.zip(name, built)
	if err != nil {
		return err
	}
	if err := r.listModules(built); err != nil {
		return err
	}

	bucket := &yaml.Node{Kind: yaml.ScalarNode, Value: r.bucket}
	if strings.Contains(r.bucket, "${") {
		bucket.Tag = "!Sub"
	}
	key := &yaml.Node{Kind: yaml.ScalarNode, Value: path.Join(r.version, file)}
	place := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{scalar("Bucket"), bucket, scalar("Key"), key}}
	uri := "CodeUri"
	if value(resource, "Type").Value == "AWS::Serverless::LayerVersion" {
		uri = "ContentUri"
	}
	properties := value(resource, "Properties")
	remove(properties, uri)
	properties.Content = append(properties.Content, scalar(uri), place)
	remove(resource, "Metadata")
	return nil
}

// zip writes the files of a folder into an archive whose name contains its digest, and returns that
// name. The same files give the same bytes.
func (r release) zip(name, folder string) (string, error) {
	temporary := filepath.Join(r.folder, name+".zip")
	file, err := os.Create(temporary)
	if err != nil {
		return "", err
	}
	defer file.Close()
	digest := sha256.New()
	archive := zip.NewWriter(file)
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		header := &zip.FileHeader{Name: filepath.ToSlash(rel), Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
		header.SetMode(0o644)
		if info.Mode()&0o111 != 0 {
			header.SetMode(0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		to, err := archive.CreateHeader(header)
		if err != nil {
			return err
		}
		digest.Write(fmt.Appendf(nil, "%s %v %d\n", header.Name, header.Mode(), len(content)))
		digest.Write(content)
		_, err = to.Write(content)
		return err
	})
	if err := cmp.Or(err, archive.Close(), file.Close()); err != nil {
		return "", err
	}
	final := fmt.Sprintf("%s-%.12x.zip", name, digest.Sum(nil))
	return final, os.Rename(temporary, filepath.Join(r.folder, final))
}

// listModules writes which modules are in the programs for arm64; those for x86_64 have the same.
func (r release) listModules(built string) error {
	programs, err := filepath.Glob(filepath.Join(built, "aarch64", "*"))
	if err != nil {
		return err
	}
	for _, program := range programs {
		list := exec.Command(filepath.Join(".tools", "bin", "cyclonedx-gomod"), "bin", "-json", "-noserial", "-notimestamp",
			"-output", filepath.Join(r.folder, filepath.Base(program)+".cdx.json"), program)
		if out, err := list.CombinedOutput(); err != nil {
			return fmt.Errorf("list the modules of %s: %w\n%s", filepath.Base(program), err, out)
		}
	}
	return nil
}

// resolved returns a copy of a node that has what its aliases (*name) and merges (<<) name in their
// place, because CloudFormation supports neither. `sam build` does the same.
func resolved(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return resolved(n.Alias)
	}
	c := *n
	c.Anchor, c.Content = "", nil
	var merged []*yaml.Node
	for i, child := range n.Content {
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 0 && child.Tag == "!!merge":
		case n.Kind == yaml.MappingNode && i%2 == 1 && n.Content[i-1].Tag == "!!merge":
			merged = resolved(child).Content
		default:
			c.Content = append(c.Content, resolved(child))
		}
	}
	for i := 0; i < len(merged); i += 2 { // a key of the mapping itself wins
		if find(&c, merged[i].Value) < 0 {
			c.Content = append(c.Content, merged[i], merged[i+1])
		}
	}
	return &c
}

func scalar(text string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: text} }

// value returns the value at a path of keys, or nil.
func value(n *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		i := find(n, key)
		if i < 0 {
			return nil
		}
		n = n.Content[i+1]
	}
	return n
}

// remove removes a key and its value, if the mapping has it.
func remove(mapping *yaml.Node, key string) {
	if i := find(mapping, key); i >= 0 {
		mapping.Content = slices.Delete(mapping.Content, i, i+2)
	}
}

// find returns the index of a key in a mapping, or -1.
func find(mapping *yaml.Node, key string) int {
	for i := 0; mapping != nil && mapping.Kind == yaml.MappingNode && i < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return i
		}
	}
	return -1
}
