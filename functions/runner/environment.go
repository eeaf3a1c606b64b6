package main

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"

	"github.com/terrapulse/terrapulse/internal/aws/secrets"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
)

// prepareEnvironment prepares this container for Terraform: the root file system is read-only, and
// only the work volume can be written. The tasks' directories, which are relative to the working
// directory of Terrapulse, are there. Terraform and its providers inherit the environment that it
// sets.
func prepareEnvironment(settings settings.Runner) error {
	for name, dir := range map[string]string{
		"HOME":   settings.Work, // .terraform.d
		"TMPDIR": filepath.Join(settings.Work, "tmp"),
	} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("the work volume cannot be written: %w; it comes from the resource TaskDefinition, and the image's user must be able to write it", err)
		}
		_ = os.Setenv(name, dir) // fails only for invalid names
	}
	if err := os.Chdir(settings.Work); err != nil {
		return fmt.Errorf("change to the work volume: %w", err)
	}
	if err := trustCertificates(settings.Trust, settings.Work); err != nil {
		return err
	}
	_ = os.Unsetenv("TERRAPULSE_SECRET")
	if os.Getenv("AWS_USE_DUALSTACK_ENDPOINT") == "false" {
		_ = os.Unsetenv("AWS_USE_DUALSTACK_ENDPOINT") // Terraform's S3 backend takes every value for true
	}
	if err := useSecret(settings.Secret, settings.Work); err != nil {
		return err
	}
	return prepareModules(settings)
}

// useSecret sets the variables that Consul's own tools, Terraform's Consul backend, Vault's provider and
// the configuration use. Certificates and the key are in files.
func useSecret(held secrets.Stack, work string) error {
	for _, of := range []struct {
		variable string
		text     secrets.Text
		inFile   bool
	}{
		{"CONSUL_HTTP_TOKEN", held.ConsulToken, false},
		{"VAULT_TOKEN", held.VaultToken, false},
		{"CONSUL_CACERT", held.ConsulCACert, true},
		{"CONSUL_CLIENT_CERT", held.ConsulClientCert, true},
		{"CONSUL_CLIENT_KEY", held.ConsulClientKey, true},
	} {
		value := string(of.text)
		if value == "" {
			continue
		}
		if of.inFile {
			var err error
			if value, err = secrets.Keep(filepath.Join(work, "consul"), value); err != nil {
				return fmt.Errorf("write the content of %s to a file: %w", of.variable, err)
			}
		}
		_ = os.Setenv(of.variable, value)
	}
	return nil
}

// who returns the holder (user@host) that this container's Terraform writes into state locks.
// Terraform takes the user from /etc/passwd or, if its uid is not listed there, from USER: then the
// launch's id is the user. Otherwise only the host name distinguishes containers.
func who(launch string) (string, error) {
	_ = os.Setenv("USER", "terrapulse-"+launch)
	name := ""
	if u, err := user.Current(); err == nil { // Terraform also works without it
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("find the host's name: %w", err)
	}
	return name + "@" + host, nil
}
