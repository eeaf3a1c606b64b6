package consul

// Snapshot is everything a task renders, read at one moment: complete, and
// from a cluster with a leader.
type Snapshot struct {
	// Blocks in the order in which they are rendered: what the condition
	// gives, then the module inputs as configured. There is always exactly one
	// services block, empty at the end where nothing renders services: every
	// module declares that variable.
	Blocks []Block

	// Condition is what triggers the task, also where it is not rendered. It
	// is the zero Observation for a task without a condition.
	Condition Observation
}

// Block is the value of one input variable of the module. Only the field that
// belongs to Variable is used.
type Block struct {
	Variable string // "services", "catalog_services" or "consul_kv"
	Services []Service
	Catalog  []CatalogService
	KV       []KVPair
}

// Service is one instance of a service, with the fields that modules see, in
// the order in which they are rendered. Maps and Tags are never nil.
type Service struct {
	ID                  string
	Name                string
	Kind                string // "" for an ordinary service
	Address             string // the service's own or, where it has none, the node's
	Port                int
	Meta                map[string]string
	Tags                []string // sorted
	Namespace           string   // "" on Consul CE
	Status              string   // passing, warning, critical or maintenance: the worst of its checks
	Node                string
	NodeID              string
	NodeAddress         string
	NodeDatacenter      string
	NodeTaggedAddresses map[string]string
	NodeMeta            map[string]string
	CTSUserDefinedMeta  map[string]string // from the task file
}

// CatalogService is a service name with all tags of its instances, sorted.
type CatalogService struct {
	Name string
	Tags []string
}

// KVPair is a key of Consul's KV store by its full path, and its value.
type KVPair struct {
	Key, Value string
}

// Observation is a digest of what a query showed: of the rendered fields only,
// and independent of the order in which Consul gives them.
type Observation struct {
	Digest string // SHA-256 in hexadecimal

	// Elements are the parts of what was seen, so that Diff can say what has
	// changed: a short digest by the name of a service instance (as rendered:
	// id.node.namespace.datacenter), of a service, or of a key.
	Elements map[string]string
}
