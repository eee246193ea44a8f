// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
)

// schema is that of the messages.
const schema = 1

// Step is what a message asks for.
type Step string

// The steps.
const (
	Discover Step = "Discover"
	SBOM     Step = "SBOM"
	Match    Step = "Match"
	Database Step = "Database"
)

// tokens are the steps as subjects have them.
var tokens = map[Step]string{Discover: "discover", SBOM: "sbom", Match: "match", Database: "database"}

// AnyAdapter is the adapter of what needs none.
const AnyAdapter = "any"

// Ref names an object of the message's namespace.
type Ref struct {
	Kind string `json:"kind,omitempty"`
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Item is a Repository or an Image.
type Item struct {
	Name string `json:"name"`
	// UID is "" for the Repository of a catalogue that nobody has made yet: the worker makes it.
	UID   string `json:"uid"`
	Bytes int64  `json:"bytes,omitempty"`
}

// Message is a unit of work. It holds no credential, no URL and no filter.
type Message struct {
	Schema    int    `json:"schema"`
	Step      Step   `json:"step"`
	Namespace string `json:"namespace"`
	Registry  *Ref   `json:"registry,omitempty"`
	Job       *Ref   `json:"job,omitempty"`
	Items     []Item `json:"items,omitempty"`
	Adapter   string `json:"adapter"`
	// Database is the version that the work is counted by.
	Database string    `json:"database,omitempty"`
	Deadline time.Time `json:"deadline,omitzero"`
	// BudgetBytes may be fetched, RequestsPerSecond may be asked of the host.
	BudgetBytes       int64   `json:"budgetBytes,omitempty"`
	RequestsPerSecond float64 `json:"requestsPerSecond,omitempty"`
	// Refused is the version of the Secret that the registry has refused: a worker that reads the same version asks nobody.
	Refused string `json:"refused,omitempty"`
	// Bounds are those of the namespace, where settings are tighter than the installation.
	Bounds *Bounds `json:"bounds,omitempty"`
	// ID is drawn when the item is let in; the same only for a publisher's retry of this message.
	ID string `json:"-"`
	// TraceParent is that of the W3C's trace context.
	TraceParent string `json:"-"`
}

// Bounds of a namespace; what is 0 or empty is that of the installation.
type Bounds struct {
	Repositories int64 `json:"repositories,omitempty"`
	Images       int64 `json:"images,omitempty"`
	// AllowedHosts are lists of patterns; a host fits one of each.
	AllowedHosts [][]string `json:"allowedHosts,omitempty"`
}

// maxItems of a message is a batch of matches.
const maxItems = 50

// check says what is wrong with a message.
func (m Message) check() error {
	if m.Schema != schema {
		return fmt.Errorf("schema %d is unknown", m.Schema)
	}
	if _, known := tokens[m.Step]; !known {
		return fmt.Errorf("step %q is unknown", m.Step)
	}
	if !isToken(m.Adapter) {
		return fmt.Errorf("%q is not a name of an adapter", m.Adapter)
	}
	if m.Step == Database {
		return nil
	}
	switch {
	case m.Namespace == "":
		return errors.New("there is no namespace")
	case m.Registry == nil || m.Registry.Name == "" || m.Registry.UID == "":
		return errors.New("there is no registry")
	case len(m.Items) == 0 || len(m.Items) > maxItems:
		return fmt.Errorf("%d items are not 1 to %d", len(m.Items), maxItems)
	case m.Step != Match && len(m.Items) > 1:
		return fmt.Errorf("%d items, but only matches come in batches", len(m.Items))
	case slices.ContainsFunc(m.Items, func(i Item) bool { return i.Name == "" || i.UID == "" && m.Step != Discover }):
		return errors.New("an item has no name or no UID")
	}
	return nil
}

// isToken tells whether a name can be a part of a subject.
func isToken(name string) bool {
	const maxToken = 63
	if name == "" || len(name) > maxToken {
		return false
	}
	return !slices.ContainsFunc([]byte(name), func(c byte) bool {
		return (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-'
	})
}

// decode reads a message. The error says why it goes to the dead letters.
func decode(data []byte) (Message, error) {
	var m Message
	if err := json.Unmarshal(data, &m); err != nil {
		return Message{}, fmt.Errorf("no message: %w", err)
	}
	return m, m.check()
}

// Ended tells the controller that an item has been worked on: a wake-up, never the truth.
type Ended struct {
	Namespace string `json:"ns"`
	Name      string `json:"name"`
	Step      Step   `json:"step"`
	// Outcome is that of the try, or Passed where nothing was done; Row then tells why.
	Outcome string `json:"outcome"`
	Row     string `json:"row,omitempty"`
	// Reason is why a try did not end well.
	Reason string `json:"reason,omitempty"`
	// Job is the UID of the job of the message.
	Job  string `json:"job,omitempty"`
	Host string `json:"host,omitempty"`
	// Account is the UID of the Secret whose limits at the host count; "" is anonymous.
	Account           string `json:"account,omitempty"`
	RetryAfterSeconds int64  `json:"retryAfterSeconds,omitempty"`
	Bytes             int64  `json:"bytes,omitempty"`
	// Remaining requests until ResetTime, as the host has told; nil: it tells none.
	Remaining *int64    `json:"remaining,omitempty"`
	ResetTime time.Time `json:"resetTime,omitzero"`
	// Secret is the version of the Secret that was used, where the registry has refused it.
	Secret string `json:"secret,omitempty"`
	// Preview is what a dry run has found: a worker writes no status of jobs.
	Preview *registryv1alpha1.DiscoveryJobStatus `json:"preview,omitempty"`
}

// Passed is the outcome of an item that nothing was done with.
const Passed = "Passed"

// Adapter is what a worker has.
type Adapter struct {
	Name          string `json:"name"`
	Version       string `json:"version,omitempty"`
	EngineVersion string `json:"engineVersion,omitempty"`
	Database      string `json:"database,omitempty"`
}

// Worker is what a worker says of itself.
type Worker struct {
	Name     string       `json:"name"`
	Adapters []Adapter    `json:"adapters,omitempty"`
	Slots    map[Step]int `json:"slots"`
	Free     map[Step]int `json:"free"`
	// Draining: it takes nothing more.
	Draining bool `json:"draining,omitempty"`
}

// Limits are what a host allows from now on.
type Limits struct {
	Host string `json:"host"`
	// Until is the end of a pause of Account, which is that of Ended.
	Account string    `json:"account,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	// RequestsPerSecond is the share of an item.
	RequestsPerSecond float64 `json:"requestsPerSecond,omitempty"`
}
