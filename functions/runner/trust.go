package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// systemCertificates are the files with the CA certificates of an image, in several distributions.
var systemCertificates = []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"}

// trustCertificates makes this process, Terraform, its providers and git trust the CA certificates
// in a folder, in addition to those of the image. Images that are built from infra/runner contain
// them already.
func trustCertificates(folder, work string) error {
	if folder == "" {
		return nil
	}
	var added []string
	for _, pattern := range []string{"*.pem", "*.crt"} {
		files, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return fmt.Errorf("find CA certificates in %s: %w", folder, err)
		}
		added = append(added, files...)
	}
	if len(added) == 0 {
		return nil
	}
	var all bytes.Buffer
	for _, file := range systemCertificates {
		if content, err := os.ReadFile(file); err == nil {
			all.Write(content)
			break
		}
	}
	for _, file := range added {
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("read a CA certificate: %w", err)
		}
		all.WriteString("\n")
		all.Write(content)
	}
	file := filepath.Join(work, "ca-certificates.crt")
	if err := os.WriteFile(file, all.Bytes(), 0o600); err != nil {
		return fmt.Errorf("write the CA certificates: %w", err)
	}
	_ = os.Setenv("SSL_CERT_FILE", file)
	_ = os.Setenv("GIT_SSL_CAINFO", file)
	return nil
}
