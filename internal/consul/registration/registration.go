// Package registration keeps this instance registered as a service on the local Consul agent while
// it runs, with a health check of its HTTP API. A failure to register is logged and stops nothing
// else.
package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/hashicorp/consul/api"

	"github.com/terrapulse/terrapulse/internal/taskfile/config"
)

// Consul-Terraform-Sync registers itself in the same way.
const (
	tag             = "cts"
	checkName       = "CTS Health Status"
	checkNotes      = "Check created by Consul-Terraform-Sync"
	healthPath      = "/v1/health"
	checkInterval   = "10s"
	checkTimeout    = "2s"
	deregisterAfter = "30m" // of failing checks
	retries         = 8
)

// Intervals and limits of a Registration.
const (
	checkEvery   = 30 * time.Second        // whether the agent still has the service
	firstWait    = 1250 * time.Millisecond // after a first failure, plus or minus a fifth; doubles with each
	answerTime   = 10 * time.Second        // limit of one answer
	withdrawTime = 3 * time.Second         // limit of the deregistration, as the program is exiting
)

// Service returns the service for this instance as configured. The HTTP API listens on cfg.Port.
func Service(cfg *config.Config) *api.AgentServiceRegistration {
	r := cfg.Consul.ServiceRegistration
	s := &api.AgentServiceRegistration{
		ID: cfg.ID, Name: r.ServiceName, Tags: []string{tag},
		Address: r.Address, Port: cfg.Port, Namespace: r.Namespace,
	}
	if !r.DefaultCheck.Enabled {
		return s
	}
	address := strings.TrimRight(r.DefaultCheck.Address, "/")
	if address == "" {
		scheme := "http"
		if cfg.TLS.Enabled {
			scheme = "https"
		}
		host := "localhost"
		if bound, err := netip.ParseAddr(cfg.API.BindAddress); err == nil && !bound.IsUnspecified() {
			host = cfg.API.BindAddress
		}
		address = scheme + "://" + net.JoinHostPort(host, strconv.Itoa(cfg.Port))
	}
	s.Checks = api.AgentServiceChecks{{
		CheckID:  cfg.ID + "-health",
		Name:     checkName,
		Notes:    checkNotes,
		HTTP:     address + healthPath,
		Method:   http.MethodGet,
		Interval: checkInterval,
		Timeout:  checkTimeout,
		Status:   api.HealthCritical, // until the first check
		// The agent calls only the health endpoint, and knows no name of this host.
		TLSSkipVerify:                  true,
		DeregisterCriticalServiceAfter: deregisterAfter,
	}}
	return s
}

// Registration keeps one service registered.
type Registration struct {
	agent   *api.Agent
	service *api.AgentServiceRegistration
	log     *slog.Logger
	pace    pace

	sent bool // the agent may have the service
	said string
}

// pace is shortened by tests.
type pace struct{ check, wait, answer time.Duration }

// New prepares the registration of a service on the client's agent.
func New(client *api.Client, service *api.AgentServiceRegistration, log *slog.Logger) *Registration {
	return &Registration{agent: client.Agent(), service: service, log: log.With("service", service.Name, "service_id", service.ID),
		pace: pace{checkEvery, firstWait, answerTime}}
}

// Run registers the service, registers it again whenever the agent has lost it, and deregisters it
// when the context ends. It returns at most 3 seconds after that.
func (r *Registration) Run(ctx context.Context) {
	known := false // a service of an earlier process may differ
	for {
		err := r.ensure(ctx, known)
		switch {
		case ctx.Err() != nil:
			r.withdraw(ctx)
			return
		case err == nil:
			known, r.said = true, ""
		case err.Error() != r.said:
			r.said = err.Error()
			r.log.Error("cannot register in Consul, will retry: tasks are not affected", "error", err)
		}
		select {
		case <-time.After(r.pace.check):
		case <-ctx.Done():
		}
	}
}

// ensure registers the service unless the agent has it. It retries transient failures for about
// five minutes.
func (r *Registration) ensure(ctx context.Context, known bool) error {
	if known && !r.lost(ctx) {
		return nil
	}
	waits := backoff.NewExponentialBackOff()
	waits.InitialInterval, waits.RandomizationFactor, waits.Multiplier = r.pace.wait, 0.2, 2
	waits.MaxInterval = r.pace.wait << retries
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		ctx, cancel := context.WithTimeout(ctx, r.pace.answer)
		defer cancel()
		r.sent = true
		return struct{}{}, r.classify("register", r.agent.ServiceRegisterOpts(r.service, api.ServiceRegisterOpts{}.WithContext(ctx)))
	}, backoff.WithBackOff(waits), backoff.WithMaxTries(1+retries), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			r.log.Debug("not registered in Consul yet", "error", err, "again_in", wait)
		}))
	if err == nil {
		r.log.Info("registered in Consul")
	}
	return err
}

// lost reports whether the agent has lost the service. If the agent does not answer, the next check
// decides.
func (r *Registration) lost(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, r.pace.answer)
	defer cancel()
	_, _, err := r.agent.Service(r.service.ID, (&api.QueryOptions{Namespace: r.service.Namespace}).WithContext(ctx))
	code := status(err)
	switch {
	case err == nil:
		return false
	case code == http.StatusNotFound:
		r.log.Warn("the Consul agent has lost this service: registering it again")
		return true
	}
	r.log.Debug("the Consul agent does not answer whether it has this service", "error", err)
	return code == http.StatusForbidden // registering then reports what is missing
}

// withdraw deregisters the service.
func (r *Registration) withdraw(ctx context.Context) {
	if !r.sent {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), min(withdrawTime, r.pace.answer))
	defer cancel()
	err := r.agent.ServiceDeregisterOpts(r.service.ID, (&api.QueryOptions{Namespace: r.service.Namespace}).WithContext(ctx))
	switch {
	case err == nil:
		r.log.Info("deregistered from Consul")
	case status(err) == http.StatusNotFound: // it was not registered
	case len(r.service.Checks) > 0:
		r.log.Warn("cannot deregister from Consul: Consul removes the service when its check has failed for 30 minutes",
			"error", r.classify("deregister", err))
	default:
		r.log.Warn("cannot deregister from Consul: use `consul services deregister`", "error", r.classify("deregister", err))
	}
}

// classify adds the meaning to an error, and marks errors that a retry cannot correct.
func (r *Registration) classify(act string, err error) error {
	if err == nil {
		return nil
	}
	code := status(err)
	err = fmt.Errorf("%s service %q on the Consul agent: %w", act, r.service.Name, err)
	switch {
	case code == http.StatusForbidden:
		return backoff.Permanent(fmt.Errorf("missing required Consul ACL: the token (consul.token, CONSUL_HTTP_TOKEN) needs service:write on %q: %w", r.service.Name, err))
	case code >= 400 && code < 500 && code != http.StatusTooManyRequests:
		return backoff.Permanent(err)
	}
	return err
}

// status returns the HTTP status behind an error, or 0.
func status(err error) int {
	if s, ok := errors.AsType[api.StatusError](err); ok {
		return s.Code
	}
	return 0
}
