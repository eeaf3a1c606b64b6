package hcptest

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha512"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// notification is the configuration of a workspace's notifications.
type notification struct {
	id         string
	workspace  *workspace
	attributes object
	responses  []any
}

func (n *notification) text(name string) string { text, _ := n.attributes[name].(string); return text }

func (n *notification) show() object {
	a := maps.Clone(n.attributes)
	a["token"] = nil // is never shown
	a["delivery-responses"] = n.responses
	return resource("notification-configurations", n.id, a, object{"subscribable": one("workspaces", n.workspace.id)})
}

func (s *Server) routeNotifications() {
	const of = "/api/v2/workspaces/{id}/notification-configurations"
	s.mux.HandleFunc("GET "+of, s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
		all := []object{}
		for _, n := range w.notifications {
			all = append(all, n.show())
		}
		return answer{data: all, whole: true}, nil
	}))
	s.mux.HandleFunc("POST "+of, s.ofWorkspace(func(c *call, w *workspace) (answer, error) {
		in, err := c.read()
		if err != nil {
			return answer{}, err
		}
		if c.by.rights.NoWorkspaces {
			return c.missing()
		}
		n := &notification{workspace: w, attributes: object{"enabled": false, "triggers": []any{}, "token": nil, "created-at": stamp(time.Now()), "updated-at": stamp(time.Now())}}
		if a, err := c.configure(n, in.Attributes); err != nil {
			return a, err
		}
		n.id = c.newID("nc")
		w.notifications = append(w.notifications, n)
		c.notifications[n.id] = n
		return answer{status: http.StatusCreated, data: n.show()}, nil
	}))
	s.mux.HandleFunc("/api/v2/notification-configurations/{id}", s.ofNotification(func(c *call, n *notification) (answer, error) {
		switch c.r.Method {
		case http.MethodDelete:
			delete(c.notifications, n.id)
			n.workspace.notifications = slices.DeleteFunc(n.workspace.notifications, func(other *notification) bool { return other == n })
			return answer{status: http.StatusNoContent}, nil
		case http.MethodPatch:
			in, err := c.read()
			if err != nil {
				return answer{}, err
			}
			if a, err := c.configure(n, in.Attributes); err != nil {
				return a, err
			}
		}
		return answer{data: n.show()}, nil
	}))
	s.mux.HandleFunc("POST /api/v2/notification-configurations/{id}/actions/verify", s.ofNotification(func(c *call, n *notification) (answer, error) {
		if err := c.verify(n); err != nil {
			return refuse(http.StatusBadRequest, "bad request", "%v", err)
		}
		return answer{data: n.show()}, nil
	}))
}

func (s *Server) ofNotification(do func(*call, *notification) (answer, error)) http.HandlerFunc {
	return s.handle(func(c *call) (answer, error) {
		if n := c.notifications[c.id()]; n != nil {
			return do(c, n)
		}
		return c.missing()
	}, false)
}

// configure takes over attributes. What is enabled must answer.
func (s *Server) configure(n *notification, attributes object) (answer, error) {
	before := maps.Clone(n.attributes)
	maps.Copy(n.attributes, attributes)
	switch {
	case n.text("name") == "":
		n.attributes = before
		return invalid("Name can't be blank")
	case n.text("destination-type") == "generic" && n.text("url") == "":
		n.attributes = before
		return invalid("Url can't be blank")
	}
	if on, _ := n.attributes["enabled"].(bool); on {
		if err := s.verify(n); err != nil && s.has(RefusedNotifications) {
			n.attributes["enabled"] = false
		} else if err != nil {
			n.attributes = before
			return invalid("Url does not accept the verification: %v", err)
		}
	}
	return answer{}, nil
}

// verify sends the request with which a destination is verified.
func (s *Server) verify(n *notification) (err error) {
	if n.text("destination-type") != "generic" {
		return nil
	}
	body := object{"payload_version": 1, "notification_configuration_id": n.id, "run_url": nil, "run_id": nil, "run_message": nil,
		"run_created_at": nil, "run_created_by": nil, "workspace_id": nil, "workspace_name": nil, "organization_name": nil,
		"notifications": []object{{"message": "Verification of " + n.text("name"), "trigger": "verification", "run_status": nil, "run_updated_at": nil, "run_updated_by": nil}}}
	url, token := n.text("url"), n.text("token")
	s.unlocked(func() { err = post(url, token, body) })
	return err
}

// post sends a notification with its signature.
func post(url, token string, body object) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequest(http.MethodPost, url, bytes.NewReader(text))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		mac := hmac.New(sha512.New, []byte(token))
		mac.Write(text)
		req.Header.Set("X-TFE-Notification-Signature", hex.EncodeToString(mac.Sum(nil)))
	}
	resp, err := (&http.Client{Timeout: patience}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("the destination answered with status %d", resp.StatusCode)
	}
	return nil
}

// notify sends the notifications of a run's change. Nothing waits for them. There are none of plans
// that cannot be applied.
func (s *Server) notify(r *run, trigger string) {
	w := r.workspace
	if r.planOnly {
		return
	}
	for _, n := range w.notifications {
		triggers, _ := n.attributes["triggers"].([]any)
		on, _ := n.attributes["enabled"].(bool)
		if !on || n.text("destination-type") != "generic" || !slices.Contains(triggers, any(trigger)) {
			continue
		}
		now := stamp(time.Now())
		body := object{"payload_version": 1, "notification_configuration_id": n.id, "run_id": r.id, "run_message": r.message,
			"run_url":        s.SecureURL + "/app/" + w.organization + "/" + w.name() + "/runs/" + r.id,
			"run_created_at": stamp(r.created), "run_created_by": strings.TrimPrefix(r.by, "user-"), "workspace_id": w.id, "workspace_name": w.name(), "organization_name": w.organization,
			"notifications": []object{{"message": "Run " + r.status, "trigger": trigger, "run_status": r.status, "run_updated_at": now, "run_updated_by": strings.TrimPrefix(cmp.Or(r.decider, r.by), "user-")}}}
		url, token := n.text("url"), n.text("token")
		s.workers.Go(func() { _ = post(url, token, body) }) // a destination may be gone
	}
}

func (s *Server) notifyEnd(r *run) {
	if slices.Contains([]string{"errored", "canceled", "force_canceled"}, r.status) {
		s.notify(r, "run:errored")
		return
	}
	s.notify(r, "run:completed")
}
