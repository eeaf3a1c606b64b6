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
	if err := trimTokens(); err != nil {
		return err
	}
	if err := keepPEM(settings); err != nil {
		return err
	}
	return prepareModules(settings)
}

// trimTokens trims the tokens that ECS has put into the environment, as the functions do with the
// tokens that they read.
func trimTokens() error {
	for name, parameter := range map[string]string{"CONSUL_HTTP_TOKEN": "ConsulTokenArn", "VAULT_TOKEN": "VaultTokenArn"} {
		value := os.Getenv(name)
		trimmed := secrets.Trim(value)
		switch {
		case trimmed == value:
			continue
		case trimmed == "":
			return fmt.Errorf("%s is empty: store the token in the secret that the parameter %s names", name, parameter)
		}
		_ = os.Setenv(name, trimmed)
	}
	return nil
}

// keepPEM writes the certificates and the key for Consul to files, and removes them from the
// environment. It sets the variables for these files that Consul's own tools, Terraform's Consul
// backend and the configuration use.
func keepPEM(settings settings.Runner) error {
	for _, pem := range []struct{ from, text, variable string }{
		{"TERRAPULSE_CONSUL_CA", settings.ConsulCA, "CONSUL_CACERT"},
		{"TERRAPULSE_CONSUL_CERT", settings.ConsulCert, "CONSUL_CLIENT_CERT"},
		{"TERRAPULSE_CONSUL_KEY", settings.ConsulKey, "CONSUL_CLIENT_KEY"},
	} {
		if pem.text == "" {
			continue
		}
		file, err := secrets.Keep(filepath.Join(settings.Work, "consul"), pem.text)
		if err != nil {
			return fmt.Errorf("write the content of %s to a file: %w", pem.from, err)
		}
		_ = os.Setenv(pem.variable, file)
		_ = os.Unsetenv(pem.from)
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
