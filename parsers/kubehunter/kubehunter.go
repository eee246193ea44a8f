// SPDX-License-Identifier: Apache-2.0

package kubehunter

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/parsers/sdk"
	"github.com/scanyard/scanyard/parsers/sdk/ecma"
	"github.com/scanyard/scanyard/parsers/sdk/jsonstream"
)

// Parser returns the parser to be registered.
func Parser() sdk.Parser {
	return sdk.Parser{
		ResultType: "kube-hunter-json",
		Summary:    "kube-hunter JSON report (--report json)",
		Kinds:      kinds(),
		Reach:      "nodes, services and vulnerabilities",
		Parse:      parse,
	}
}

func kinds() []sdk.Kind {
	return []sdk.Kind{{
		Category:   sdk.AnyCategory,
		When:       "a vulnerability; category and severity are kube-hunter's",
		Severities: []string{finding.Low, finding.Medium, finding.High, finding.Informational},
		Attributes: []sdk.Attribute{
			{Name: "evidence", Type: sdk.Text | sdk.AsReported, Doc: "what kube-hunter got to see"},
			{Name: "kubeHunterRule", Type: sdk.Text | sdk.AsReported, Doc: "the hunter that found it"},
		},
		Identity: []string{"name", "location"},
	}}
}

func parse(ctx context.Context, in *sdk.Input, emit sdk.Emit) error {
	nodes := nodes{}
	c := counted{}
	if err := walk(ctx, in, func(report *jsonstream.Reader, key string) error {
		if key == "nodes" {
			return nodes.read(report)
		}
		return c.services(report, key)
	}); err != nil {
		return err
	}
	c.nodes = nodes.count
	defer c.reportReach(in)
	return walk(ctx, in, func(report *jsonstream.Reader, key string) error {
		if key != "vulnerabilities" {
			return nil
		}
		c.hasVulnerabilities = true
		return report.Array(func(i int) error {
			v, err := report.Value()
			if err != nil {
				return err
			}
			if err := parseVulnerability(v, &nodes, emit); err != nil {
				return fmt.Errorf("vulnerability %d: %w", i, err)
			}
			c.vulnerabilities++
			return ctx.Err()
		})
	})
}

// counted is what kube-hunter has come across.
type counted struct {
	nodes, serviceCount, vulnerabilities int
	hasVulnerabilities, hasServices      bool
}

// services counts those that the report lists.
func (c *counted) services(report *jsonstream.Reader, key string) error {
	if key != "services" {
		return nil
	}
	kind, err := report.Kind()
	if err != nil || kind != jsonstream.Array {
		return err
	}
	c.hasServices = true
	return report.Array(func(int) error {
		c.serviceCount++
		return nil
	})
}

// reportReach reports what was reached.
func (c *counted) reportReach(in *sdk.Input) {
	switch {
	case c.nodes+c.serviceCount == 0 && c.vulnerabilities > 0:
		in.Reached("something was reached: %s", sdk.Counted(c.vulnerabilities, "vulnerability", "vulnerabilities"))
	case c.nodes+c.serviceCount > 0:
		in.Reached("%s and %s were found",
			sdk.Counted(c.nodes, "node", "nodes"), sdk.Counted(c.serviceCount, "service", "services"))
	case c.hasServices && c.hasVulnerabilities:
		in.NothingReached("0 nodes and 0 services were found")
	default:
		in.ReachUnknown("the report lists neither nodes nor services")
	}
}

// walk reads the report from its first byte to its last and has its members read by member.
func walk(ctx context.Context, in *sdk.Input, member func(report *jsonstream.Reader, key string) error) error {
	return jsonstream.Read(ctx, in, func(report *jsonstream.Reader) error {
		kind, err := report.Kind()
		if err != nil {
			return err
		}
		switch kind {
		case jsonstream.Nothing:
			return errors.New("the input is empty, must be a JSON report of kube-hunter")
		case jsonstream.Null:
			return errors.New("the report is null, must be an object")
		case jsonstream.Object:
			return report.Object(func(key string) error { return member(report, key) })
		default:
			return report.Skip() // a value that has no vulnerabilities
		}
	})
}

// nodes knows where vulnerabilities that were seen from inside a pod belong.
type nodes struct {
	count   int
	master  string
	found   bool
	invalid error // why it is unknown; an error only if it is needed
}

// read looks for the first master. It takes all the types of values that can be walked over.
func (n *nodes) read(report *jsonstream.Reader) error {
	kind, err := report.Kind()
	if err != nil {
		return err
	}
	switch kind {
	case jsonstream.Array:
		return report.Array(func(i int) error {
			v, err := report.Value()
			n.count++
			if err == nil && !n.found && n.invalid == nil {
				n.look(i, v)
			}
			return err
		})
	case jsonstream.String:
	default:
		n.invalid = fmt.Errorf("nodes is %s, must be an array", kind)
	}
	return nil
}

func (n *nodes) look(i int, v any) {
	if v == nil {
		n.invalid = fmt.Errorf("node %d is null, must be an object", i)
		return
	}
	node, _ := v.(finding.Object)
	if typ, _ := node.Get("type"); typ == "Node/Master" {
		n.master, n.found = ecma.Property(node, "location"), true
	}
}

func parseVulnerability(v any, nodes *nodes, emit sdk.Emit) error {
	vulnerability, ok := v.(finding.Object)
	if !ok {
		return errors.New("is not an object")
	}
	location, err := locationOf(vulnerability, nodes)
	if err != nil {
		return err
	}
	severity, ok := vulnerability.Text("severity").Get()
	if !ok {
		return errors.New("has no severity")
	}
	f := finding.Finding{
		Location:   finding.String("tcp://" + location),
		Severity:   finding.String(ecma.ToUpper(severity)),
		Attributes: finding.Object{},
		Extra:      finding.Object{{Key: "reference", Value: reference(vulnerability)}},
	}
	ecma.SetText(&f, &f.Name, "name", vulnerability, "vulnerability")
	ecma.SetText(&f, &f.Description, "description", vulnerability, "description")
	ecma.SetText(&f, &f.Category, "category", vulnerability, "category")
	ecma.Copy(&f.Attributes, "evidence", vulnerability, "evidence")
	ecma.Copy(&f.Attributes, "kubeHunterRule", vulnerability, "hunter")
	return emit(&f)
}

func locationOf(vulnerability finding.Object, nodes *nodes) (string, error) {
	location, ok := vulnerability.Text("location").Get()
	switch {
	case !ok:
		return "", errors.New("has no location")
	case !strings.HasPrefix(location, "Local to Pod"):
		return location, nil
	case nodes.invalid != nil:
		return "", fmt.Errorf("is local to a pod, but %w", nodes.invalid)
	case nodes.found:
		return nodes.master, nil
	}
	return location, nil
}

// reference points to kube-hunter's knowledge base, if the vulnerability is in it.
func reference(vulnerability finding.Object) finding.Object {
	r := finding.Object{}
	if vid, _ := vulnerability.Get("vid"); vid == "None" {
		return r
	}
	ecma.Copy(&r, "id", vulnerability, "vid")
	return append(r, finding.Member{
		Key: "source", Value: "https://aquasecurity.github.io/kube-hunter/kb/" + ecma.Property(vulnerability, "vid"),
	})
}
