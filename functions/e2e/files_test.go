//go:build linux

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// file writes a file of the configuration.
func (c *cloud) file(name, content string) {
	c.t.Helper()
	path := filepath.Join(c.dir, "files", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		c.t.Fatal(err)
	}
}

// out is what Terraform has made for a task, "" if nothing.
func (c *cloud) out(task string) string {
	text, err := os.ReadFile(filepath.Join(c.dir, "out", task))
	if err != nil && !os.IsNotExist(err) {
		c.t.Error(err)
	}
	return string(text)
}

// module writes the module that all tasks use: a file that names the
// instances, by the local provider. Before it does so it sleeps.
func (c *cloud) module(extra string) {
	c.file("module/main.tf", strings.ReplaceAll(moduleText, "OUT", filepath.Join(c.dir, "out"))+extra)
}

// tasks writes task files: each task watches the service web.
func (c *cloud) tasks(backend string, names ...string) {
	var b strings.Builder
	fmt.Fprintf(&b, "driver \"terraform\" {\n  backend %s\n}\n", backend)
	for _, name := range names {
		c.file("vars/"+name+".tfvars", "task = \""+name+"\"\n")
		fmt.Fprintf(&b, `
task {
  name           = %q
  module         = "./module"
  variable_files = ["./vars/%s.tfvars"]
  buffer_period { enabled = false }
  condition "services" { names = ["web"] }
}
`, name, name)
	}
	c.file("tasks.hcl", b.String())
}

// pushBroken moves the pointer to a bundle that is none.
func (c *cloud) pushBroken() {
	c.t.Helper()
	broken := "0000000000000000000000000000000000000000000000000000000000000000"
	for key, body := range map[string]string{
		"terrapulse/bundles/" + broken + ".zip": "no zip",
		"terrapulse/current":                    `{"digest":"` + broken + `"}`,
	} {
		// This server would keep the checksum of what it overwrites.
		if _, err := c.client.DeleteObject(c.t.Context(), &s3.DeleteObjectInput{Bucket: &c.bucket, Key: &key}); err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.client.PutObject(c.t.Context(), &s3.PutObjectInput{Bucket: &c.bucket, Key: &key, Body: strings.NewReader(body)}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// moduleText is the module that all tasks use. It writes files into the folder OUT.
const moduleText = `
terraform {
  required_providers {
    local = { source = "hashicorp/local" }
  }
}
variable "services" {
  type = map(object({ name = string, address = string, port = number, node = string, id = string, kind = string, meta = map(string),
    tags = list(string), namespace = string, status = string, node_id = string, node_address = string, node_datacenter = string,
    node_tagged_addresses = map(string), node_meta = map(string), cts_user_defined_meta = map(string) }))
}
variable "task" { type = string }
resource "local_file" "out" {
  filename = "OUT/${var.task}"
  content  = join(" ", sort([for s in var.services : "${s.id}:${s.port}"]))
}
`
