// Package consul reads from Consul what tasks watch and what modules are given.
//
// A Query is what one condition or module input reads; Observe reads queries and
// keeps digests, Snapshot reads everything that a task renders. Gates show cheaply
// whether anything may have changed: Poll reads them once, Watch holds them open with
// blocking queries.
package consul
