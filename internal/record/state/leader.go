package state

// LeaderLease names the lease that a tick holds while it acts.
const LeaderLease = "reconcile"

// LeaderKey is the record of how the instance that leads is reached.
const LeaderKey = "instance/leader"

// Leader is how the instance that leads on a store is reached.
type Leader struct {
	Owner string `json:"owner"` // of the lease: another owner has another address
	Host  string `json:"host"`  // name of its host
	// Local is the URL of its HTTP API on its host, and Remote from elsewhere.
	Local  string `json:"local"`
	Remote string `json:"remote"`
}
