// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"
	"testing"
	"time"
)

const head = "apiVersion: registry.scanyard.io/v1alpha1\nkind: RegistryScanningConfig\n"

func TestDefaults(t *testing.T) {
	for name, data := range map[string]string{"NoFile": "", "Empty": head} {
		t.Run(name, func(t *testing.T) {
			c, err := parse([]byte(data))
			if err != nil {
				t.Fatal(err)
			}
			if c.DefaultAdapter != Mini || c.Adapter("") != Mini || c.Adapter("x") != "x" {
				t.Errorf("the adapters are %v, %q", c.Adapters, c.DefaultAdapter)
			}
			if c.CheckPeriod() != time.Hour || c.MaxAge() != 72*time.Hour || c.Database.WhenStale != Warn {
				t.Errorf("the databases are %+v", c.Database)
			}
			if c.Quotas.Registries != 20 || c.Quotas.Concurrent != 4 || c.Quotas.BytesPerDay.String() != "500Gi" || c.Hosts != (Hosts{8, 50}) {
				t.Errorf("the bounds are %+v, %+v", c.Quotas, c.Hosts)
			}
			if r, err := c.Rules(); err != nil || r.RefusePrivate || len(r.AllowCIDRs) > 0 {
				t.Errorf("the rules are %+v, %v", r, err)
			}
			if c.Source("trivy").Repository == "" || c.Source("grype").Repository != "" {
				t.Error("only Trivy has a database of its own accord")
			}
		})
	}
}

func TestRefused(t *testing.T) {
	for name, tc := range map[string]struct{ data, want string }{
		"OtherKind":    {"apiVersion: v1\nkind: ConfigMap\n", "kind: RegistryScanningConfig"},
		"UnknownKey":   {head + "quotas: {images: 5, pictures: 6}\n", "pictures"},
		"NoAdapter":    {head + "adapters: [mini]\ndefaultAdapter: trivy\n", `defaultAdapter: "trivy"`},
		"Sandbox":      {head + "adapterSandbox: Maybe\n", "adapterSandbox"},
		"Dedupe":       {head + "dedupe: All\n", "dedupe"},
		"WhenStale":    {head + "database: {whenStale: Wait}\n", "database.whenStale"},
		"CheckPeriod":  {head + "database: {checkPeriod: soon}\n", "database.checkPeriod"},
		"Certificates": {head + "caBundle: none\n", "caBundle"},
		"BelowZero":    {head + "quotas: {concurrent: -1}\n", "quotas.concurrent"},
		"Bytes":        {head + "quotas: {bytesPerDay: \"-1\"}\n", "quotas.bytesPerDay"},
		"Network":      {head + "egress: {denyCIDRs: [10.0.0.1]}\n", "egress.denyCIDRs"},
		"Pattern":      {head + "egress: {allowedHosts: [\"[\"]}\n", "egress.allowedHosts"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse([]byte(tc.data)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("the error is %v, without %q", err, tc.want)
			}
		})
	}
}

func TestReadNamesTheFlag(t *testing.T) {
	if _, err := Read(t.TempDir() + "/none"); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("the error is %v", err)
	}
}
