// SPDX-License-Identifier: Apache-2.0

package signin

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"testing"

	"github.com/scanyard/scanyard/console/internal/session"
)

func TestProxy(t *testing.T) {
	p := &Proxy{
		Addresses:  []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8")},
		UserHeader: "X-Forwarded-User", GroupsHeader: "X-Forwarded-Groups",
		Groups: []string{"team-a", "team-b", "system:masters"}, Users: []string{"kim@example.com", "system:admin"},
	}
	of := func(name string, groups ...string) *session.Identity {
		return &session.Identity{Name: name, User: SharedUser, Groups: groups, Extra: map[string][]string{ExtraName: {name}}}
	}
	kim := &session.Identity{Name: "kim@example.com", User: "kim@example.com", Groups: []string{"team-a"}}
	for name, tc := range map[string]struct {
		from   string
		header http.Header
		want   *session.Identity // nil: refused
	}{
		"Named":          {"10.1.2.3:999", http.Header{"X-Forwarded-User": {"kim@example.com"}, "X-Forwarded-Groups": {"team-a"}}, kim},
		"Other":          {"10.1.2.3:999", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"team-b, team-a,team-a,others"}}, of("ann", "team-a", "team-b")},
		"SeveralHeaders": {"10.1.2.3:999", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"team-b", "team-a"}}, of("ann", "team-a", "team-b")},
		"WithoutGroups":  {"[fd00::1]:999", http.Header{"X-Forwarded-User": {"ann"}}, of("ann")},
		"Mapped":         {"[::ffff:10.1.2.3]:999", http.Header{"X-Forwarded-User": {"ann"}}, of("ann")},
		"ClustersGroup":  {"10.1.2.3:999", http.Header{"X-Forwarded-User": {"ann"}, "X-Forwarded-Groups": {"system:masters"}}, of("ann")},
		"ClustersUser":   {"10.1.2.3:999", http.Header{"X-Forwarded-User": {"system:admin"}}, nil},
		"Stranger":       {"10.2.0.1:999", http.Header{"X-Forwarded-User": {"kim@example.com"}}, nil},
		"NoAddress":      {"@", http.Header{"X-Forwarded-User": {"kim@example.com"}}, nil},
		"Nobody":         {"10.1.2.3:999", http.Header{"X-Forwarded-Groups": {"team-a"}}, nil},
		"Empty":          {"10.1.2.3:999", http.Header{"X-Forwarded-User": {" "}}, nil},
		"Two":            {"10.1.2.3:999", http.Header{"X-Forwarded-User": {"ann", "kim@example.com"}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.RemoteAddr, r.Header = tc.from, tc.header
			got, err := p.Who(r)
			if (err == nil) != (tc.want != nil) || !reflect.DeepEqual(got, tc.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
}
