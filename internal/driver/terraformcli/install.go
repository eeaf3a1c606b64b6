package terraformcli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-version"
	"github.com/hashicorp/hc-install/product"
	"github.com/hashicorp/hc-install/releases"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// downloadLimit is for the whole of an installation: some 30 MB, over a line of
// 1 Mbit/s at the slowest.
const downloadLimit = 5 * time.Minute

// install fetches Terraform. hc-install checks the signature and the checksum.
type install struct {
	releases string        // base URL; "" is HashiCorp's
	connect  time.Duration // to wait for a connection, and for the first byte of an answer
}

// into installs a version, or the latest, and returns the path of the binary.
// The binary appears in dir as a whole or not at all.
func (i install) into(ctx context.Context, dir, exact string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("create the directory: %w", err)
	}
	tmp, err := os.MkdirTemp(dir, ".terraform-install-")
	if err != nil {
		return "", fmt.Errorf("create a directory for the download: %w", err)
	}
	defer os.RemoveAll(tmp)

	client := &http.Client{Transport: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: i.connect}).DialContext,
		TLSHandshakeTimeout:   i.connect,
		ResponseHeaderTimeout: i.connect,
	}}
	defer client.CloseIdleConnections()
	var release interface {
		Install(context.Context) (string, error)
	} = &releases.LatestVersion{Product: product.Terraform, InstallDir: tmp, Timeout: downloadLimit, ApiBaseURL: i.releases, HTTPClient: client}
	if exact != "" {
		v, err := version.NewVersion(exact)
		if err != nil {
			return "", fmt.Errorf("version %q: %w", exact, err)
		}
		release = &releases.ExactVersion{Product: product.Terraform, Version: v, InstallDir: tmp, Timeout: downloadLimit, ApiBaseURL: i.releases, HTTPClient: client}
	}
	got, err := release.Install(ctx)
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, config.EngineTerraform+exe)
	if err := os.Rename(got, path); err != nil {
		return "", fmt.Errorf("put the binary in place: %w", err)
	}
	return path, nil
}
