// Package consul reads from Consul what tasks watch and what modules are given.
//
// A Query is what one condition or module input asks for; Observe reads
// queries and keeps digests, Snapshot reads everything a task renders. Gates
// say cheaply whether anything may have changed: Poll reads them once, Watch
// holds them open with blocking queries.
package consul
