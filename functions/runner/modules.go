package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/terrapulse/terrapulse/internal/aws/gitssh"
	"github.com/terrapulse/terrapulse/internal/aws/settings"
	"github.com/terrapulse/terrapulse/internal/base/redact"
)

// sshCommand is the first argument with which git runs this program as its SSH client.
const sshCommand = "ssh"

// prepareModules lets Terraform and git download private modules. It writes credentials to files of
// this user.
func prepareModules(s settings.Runner) error {
	dir := filepath.Join(s.Work, "git")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("write the credentials of git: %w", err)
	}
	for _, prepare := range []func(settings.Runner, string) error{useGitCredentials, useSSHKey, useRegistryCredentials} {
		if err := prepare(s, dir); err != nil {
			return err
		}
	}
	// Without credentials git would wait for somebody who types them.
	_ = os.Setenv("GIT_TERMINAL_PROMPT", "0")
	return nil
}

// inFiles returns the secrets that prepareEnvironment writes to files.
func inFiles(settings settings.Runner) []string {
	return append(redact.Environment([]string{"GIT_CREDENTIALS=" + string(settings.Secret.GitCredentials)}), string(settings.Secret.GitSSHKey), string(settings.Secret.ConsulClientKey))
}

// useGitCredentials makes git log in to hosts over HTTPS.
func useGitCredentials(settings settings.Runner, dir string) error {
	if settings.Secret.GitCredentials == "" {
		return nil
	}
	const from = "git_credentials in the stack's secret"
	file := filepath.Join(dir, "credentials")
	config := fmt.Sprintf("[credential]\n\thelper = %q\n", "store --file='"+file+"'")
	lines, forPaths := "", map[string]bool{}
	for i, line := range strings.Split(string(settings.Secret.GitCredentials), "\n") {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		u, err := url.Parse(line) // err contains the password
		if err != nil || u.Scheme != "https" || u.User == nil || u.Host == "" {
			return fmt.Errorf("line %d of %s is not of the form https://USER:TOKEN@HOST, with special characters as %%XX", i+1, from)
		}
		lines += line + "\n"
		if len(u.Path) > 1 && !forPaths[u.Host] {
			forPaths[u.Host] = true
			config += fmt.Sprintf("[credential %q]\n\tuseHttpPath = true\n", "https://"+u.Host)
		}
	}
	err := errors.Join(os.WriteFile(file, []byte(lines), 0o600),
		os.WriteFile(filepath.Join(settings.Work, ".gitconfig"), []byte(config), 0o600)) // HOME is the work volume
	if err != nil {
		return fmt.Errorf("write the credentials of git: %w", err)
	}
	return nil
}

// useSSHKey makes git use this program as its SSH client, with the key.
func useSSHKey(settings settings.Runner, dir string) error {
	if settings.Secret.GitSSHKey == "" {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	key, hosts := filepath.Join(dir, "key"), filepath.Join(dir, "known_hosts")
	err = errors.Join(os.WriteFile(key, []byte(settings.Secret.GitSSHKey+"\n"), 0o600), os.WriteFile(hosts, []byte(settings.Secret.GitKnownHosts+"\n"), 0o600))
	if err != nil {
		return fmt.Errorf("write the SSH key of git: %w", err)
	}
	_ = os.Setenv("GIT_SSH_COMMAND", gitssh.Command(program, key, hosts))
	_ = os.Setenv("GIT_SSH_VARIANT", "ssh") // git then passes a port
	return nil
}

// hostName is a host of a registry: Terraform's variable for its token has no port.
var hostName = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$`)

// useRegistryCredentials makes Terraform log in to registries of modules and providers.
func useRegistryCredentials(settings settings.Runner, _ string) error {
	for host, token := range settings.Secret.RegistryTokens {
		if !hostName.MatchString(host) {
			return fmt.Errorf("registry_tokens in the stack's secret: %q is no name of a host: use one such as app.terraform.io", host)
		}
		_ = os.Setenv("TF_TOKEN_"+strings.NewReplacer("-", "__", ".", "_").Replace(host), string(token))
	}
	return nil
}
