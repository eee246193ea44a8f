// SPDX-License-Identifier: Apache-2.0

package filter_test

import (
	"fmt"
	"testing"

	"github.com/scanyard/scanyard/registry/internal/filter"
)

func TestDemand(t *testing.T) {
	for _, c := range []struct{ filter, name, want string }{
		{`{}`, "shop/api", "selected list"},
		{`{"repositories":["shop/*"]}`, "base/debian", ""},
		{`{"repositories":["shop/*"]}`, "shop/api", "selected list"},
		{`{"repositories":["shop/api:v1","shop/*:v2"]}`, "shop/api", "selected [v1 v2]"},
		{`{"repositories":["shop/api:v1","shop/api:v*"]}`, "shop/api", "selected list [v1]"},
		{`{"repositories":["shop/api@` + digest1 + `","shop/api:v1@` + digest2 + `"]}`, "shop/api", "selected [{ " + digest1 + "} {v1 " + digest2 + "}]"},
		{`{"excludeRepositories":["shop/*"]}`, "shop/api", ""},
		{`{"rules":[{"name":"r","repositories":["shop/*"],"skip":true}]}`, "shop/api", ""},
		{`{"platforms":["linux/amd64"]}`, "a", "selected list"},
		{`{"tags":{"newest":1}}`, "a", "selected list images"},
		{`{"tags":{"newest":1,"newestBy":"Name"}}`, "a", "selected list"},
		{`{"tags":{"newest":1,"newestBy":"SemVer"},"platforms":["linux/amd64"]}`, "a", "selected list images"},
		{`{"tags":{"maxAge":"1d"}}`, "a", "selected list images"},
		{`{"tags":{"expression":"tag == 'x' && digest != ''"}}`, "a", "selected list"},
		{`{"tags":{"expression":"platforms.exists(p, p == 'linux/amd64')"}}`, "a", "selected list images"},
		{`{"tags":{"expression":"!hasCreated"}}`, "a", "selected list images"},
		{`{"tags":{"expression":"'created' == tag"}}`, "a", "selected list"},
		{`{}`, "Not Valid", ""},
	} {
		d := compile(t, c.filter).Demand("registry.example.com", c.name)
		got := ""
		if d.Selected {
			got = "selected"
		}
		if d.Selected && d.List {
			got += " list"
		}
		if len(d.Tags) > 0 {
			got += fmt.Sprint(" ", d.Tags)
		}
		if len(d.Pins) > 0 {
			got += fmt.Sprint(" ", d.Pins)
		}
		if d.Images {
			got += " images"
		}
		if got != c.want {
			t.Errorf("%s of %s: %q, want %q", c.filter, c.name, got, c.want)
		}
	}
	if d := compile(t, `{"repositories":["nginx"]}`).Demand("docker.io", "nginx"); d.Name != "library/nginx" || !d.Selected {
		t.Error(d)
	}
}

func TestByName(t *testing.T) {
	for _, c := range []struct{ filter, want string }{
		{`{}`, "1.0.0 2.0.0-rc.1 latest; x:=InvalidTag; InvalidTag:1"},
		{`{"tags":{"semver":{}}}`, "1.0.0; 2.0.0-rc.1=Prerelease latest=NotAVersion x:=InvalidTag; InvalidTag:1"},
		{`{"tags":{"exclude":["l*"],"newest":1,"maxAge":"1d"}}`, "1.0.0 2.0.0-rc.1; latest=Excluded x:=InvalidTag; InvalidTag:1"},
		{`{"tags":{"expression":"tag == 'latest'"}}`, "latest; 1.0.0=ExpressionFalse 2.0.0-rc.1=ExpressionFalse x:=InvalidTag; InvalidTag:1"},
		{`{"tags":{"expression":"tag == 'latest' && hasCreated"}}`, "1.0.0 2.0.0-rc.1 latest; x:=InvalidTag; InvalidTag:1"},
		{`{"tags":{"expression":"digest == 'x'","onError":"Fail"}}`, "1.0.0 2.0.0-rc.1 latest; x:=InvalidTag; InvalidTag:1"},
	} {
		got := told(compile(t, c.filter).ByName(filter.Repository{Name: "a", Now: now, Tags: tags(t, "latest 1.0.0 2.0.0-rc.1 x:")}))
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.filter, got, c.want)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ filter, host, want string }{
		{`{}`, "registry.example.com", "[] true"},
		{`{"repositories":["shop/api:v*","base/debian","shop/api@` + digest1 + `"]}`, "registry.example.com", "[base/debian shop/api] false"},
		{`{"repositories":["shop/*","base/debian"]}`, "registry.example.com", "[base/debian] true"},
		{`{"repositories":["shop/ap?"]}`, "registry.example.com", "[] true"},
		{`{"repositories":["nginx","library/nginx"]}`, "docker.io", "[library/nginx] false"},
		{`{"repositories":["Not Valid"]}`, "registry.example.com", "[] false"},
	} {
		names, catalog := compile(t, c.filter).Names(c.host)
		if got := fmt.Sprint(names, catalog); got != c.want {
			t.Errorf("%s: %s, want %s", c.filter, got, c.want)
		}
	}
}
