package hcptest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// configVersion is an upload of files.
type configVersion struct {
	id                          string
	workspace                   *workspace
	status                      string
	problem                     string
	autoQueue, speculative      bool
	provisional                 bool
	upload                      string // signed path
	content                     []byte // tar.gz
	created, uploaded, archived time.Time
}

func (c *call) showVersion(v *configVersion) object {
	a := object{
		"auto-queue-runs": v.autoQueue, "speculative": v.speculative, "provisional": v.provisional, "status": v.status, "source": "tfe-api",
		"error": nil, "error-message": nil, "status-timestamps": object{}, "changed-files": []any{},
	}
	if v.problem != "" {
		a["error"], a["error-message"] = "bad_archive", v.problem
	}
	if !v.uploaded.IsZero() {
		a["status-timestamps"] = object{"finished-at": v.uploaded.UTC().Format(time.RFC3339)}
	}
	r := object{"ingress-attributes": one("ingress-attributes", ""), "run": one("runs", "")}
	for _, other := range v.workspace.runs {
		if other.version == v {
			r["run"] = one("runs", other.id)
		}
	}
	doc := resource("configuration-versions", v.id, a, r)
	doc["links"] = object{"self": "/api/v2/configuration-versions/" + v.id, "download": "/api/v2/configuration-versions/" + v.id + "/download"}
	return doc
}

func (s *Server) routeUploads() {
	const of = "/api/v2/workspaces/{id}/configuration-versions"
	s.mux.HandleFunc("GET "+of, s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
		all := []object{}
		for _, v := range slices.Backward(w.versions) {
			all = append(all, c.showVersion(v))
		}
		return answer{data: all}, nil
	}))
	s.mux.HandleFunc("POST "+of, s.ofWorkspace((*call).createVersion))
	s.mux.HandleFunc("GET /api/v2/configuration-versions/{id}", s.ofVersion(func(c *call, v *configVersion) (answer, error) {
		return answer{data: c.showVersion(v)}, nil
	}))
	s.mux.HandleFunc("GET /api/v2/configuration-versions/{id}/download", s.ofVersion(func(c *call, v *configVersion) (answer, error) {
		if v.content == nil {
			return c.missing()
		}
		return answer{status: http.StatusFound, location: c.sign("download", func(*call) (answer, error) { return answer{raw: v.content}, nil })}, nil
	}))
	s.mux.HandleFunc("POST /api/v2/configuration-versions/{id}/actions/archive", s.ofVersion(func(c *call, v *configVersion) (answer, error) {
		if v.status != "uploaded" || v == v.workspace.configuration {
			return refuse(http.StatusConflict, "transition not allowed", "configuration could not be archived because it is current")
		}
		v.status, v.archived = "archived", time.Now()
		return answer{status: http.StatusAccepted}, nil
	}))
}

func (s *Server) ofVersion(do func(*call, *configVersion) (answer, error)) http.HandlerFunc {
	return s.handle(func(c *call) (answer, error) {
		if v := c.versions[c.id()]; v != nil {
			return do(c, v)
		}
		return c.missing()
	}, false)
}

func (c *call) createVersion(w *workspace) (answer, error) {
	in, err := c.read()
	if err != nil {
		return answer{}, err
	}
	v := &configVersion{id: c.newID("cv"), workspace: w, status: "pending", created: time.Now(),
		autoQueue: in.flag("auto-queue-runs", true), speculative: in.flag("speculative", false), provisional: in.flag("provisional", false)}
	switch {
	case c.by.rights.NoRuns:
		return c.missing()
	case w.attributes["vcs-repo"] != nil && !v.speculative:
		return invalid("Only speculative configuration versions can be created: the workspace is connected to VCS")
	}
	v.upload = c.sign("upload", func(c *call) (answer, error) {
		if c.r.Method != http.MethodPut {
			return c.missing()
		}
		if slices.ContainsFunc(w.runs, func(r *run) bool { return r.version == v }) {
			return answer{}, nil // repeated
		}
		content, err := io.ReadAll(c.r.Body)
		if err != nil {
			return refuse(http.StatusBadRequest, "bad request", "%v", err)
		}
		c.take(v, content)
		return answer{}, nil
	})
	c.versions[v.id] = v
	w.versions = append(w.versions, v)
	if !v.provisional && !v.speculative {
		w.configuration = v
	}
	doc := c.showVersion(v) // only this answer has the URL
	doc["attributes"].(object)["upload-url"] = c.base(c.r) + v.upload
	return answer{status: http.StatusCreated, data: doc}, nil
}

// take accepts an upload. What it contains is read at once, unless a test delays that.
func (s *Server) take(v *configVersion, content []byte) {
	v.content = content
	if !s.late("upload") {
		s.readUpload(v)
		return
	}
	s.workers.Go(func() {
		s.locked(func() {
			for s.late("upload") && !s.closed {
				s.changed.Wait()
			}
			s.readUpload(v)
		})
	})
}

// readUpload reads what was uploaded.
func (s *Server) readUpload(v *configVersion) {
	if s.closed || v.status != "pending" {
		return
	}
	if _, err := unpack(v.content); err != nil {
		v.status, v.problem = "errored", err.Error()
		return
	}
	v.status, v.uploaded = "uploaded", time.Now()
	if v.autoQueue {
		s.queue(&run{workspace: v.workspace, version: v, source: "tfe-configuration-version", message: "Triggered via configuration version",
			refresh: true, planOnly: v.speculative, autoApply: v.workspace.flag("auto-apply"), by: "user-team"})
	}
	s.changed.Broadcast()
}

// pack makes an archive of files.
func pack(files map[string]string) []byte {
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		// Nothing fails: all is in memory.
		_ = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name]))})
		_, _ = io.WriteString(archive, files[name])
	}
	_, _ = archive.Close(), zipped.Close()
	return packed.Bytes()
}

// unpack returns the regular files of an archive.
func unpack(content []byte) (map[string][]byte, error) {
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("read the archive: %w", err)
	}
	files := map[string][]byte{}
	for archive := tar.NewReader(zipped); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the archive: %w", err)
		}
		name := filepath.Clean(header.Name)
		if !filepath.IsLocal(name) {
			return nil, fmt.Errorf("the archive has the file %q outside of its folder", header.Name)
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		if files[filepath.ToSlash(name)], err = io.ReadAll(archive); err != nil {
			return nil, fmt.Errorf("read %s in the archive: %w", header.Name, err)
		}
	}
}

// write unpacks the upload into a folder.
func (v *configVersion) write(dir string) error {
	files, err := unpack(v.content)
	for name, content := range files {
		file := filepath.Join(dir, filepath.FromSlash(name))
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, 0o644))
	}
	return err
}
