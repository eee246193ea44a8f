// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	registryv1alpha1 "github.com/scanyard/scanyard/apis/registry/v1alpha1"
	"github.com/scanyard/scanyard/registry/internal/credentials"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// far answers requests by method and address, and remembers them with their bodies.
type far struct {
	answers map[string]string
	asked   []string
	headers http.Header
}

func (f *far) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	place := r.Method + " " + r.URL.String()
	f.asked = append(f.asked, strings.TrimSpace(place+" "+string(body)))
	f.headers = r.Header
	answer, known := f.answers[place]
	status := http.StatusOK
	if !known {
		status, answer = http.StatusForbidden, "secret of the far end"
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(answer)), Header: http.Header{}}, nil
}

// identities have variables; a value that begins with "token:" is put into a file.
func identities(t *testing.T, f *far, variables map[string]string) *Identities {
	t.Helper()
	for name, value := range variables {
		content, isFile := strings.CutPrefix(value, "token:")
		if !isFile {
			continue
		}
		file := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(file, []byte(content+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		variables[name] = file
	}
	return &Identities{Transport: f, Env: func(name string) string { return variables[name] }, Now: func() time.Time { return now }}
}

const (
	sts = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>` +
		`<AccessKeyId>AK</AccessKeyId><SecretAccessKey>SK</SecretAccessKey><SessionToken>ST</SessionToken></Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`
	ecr = "123456789012.dkr.ecr.eu-central-1.amazonaws.com"
)

func ecrAnswer(until time.Time) string {
	return fmt.Sprintf(`{"authorizationData":[{"authorizationToken":%q,"expiresAt":%d}]}`, base64.StdEncoding.EncodeToString([]byte("AWS:pass:word")), until.Unix())
}

func TestCredentials(t *testing.T) {
	for name, test := range map[string]struct {
		provider  registryv1alpha1.Provider
		host      string
		variables map[string]string
		answers   map[string]string
		want      credentials.Credential
		asked     []string
		fails     string
	}{
		"RolesForServiceAccounts": {
			registryv1alpha1.ProviderAWS, ecr,
			map[string]string{"AWS_ROLE_ARN": "arn:x", "AWS_WEB_IDENTITY_TOKEN_FILE": "token:pod"},
			map[string]string{"POST https://sts.eu-central-1.amazonaws.com/": sts, "POST https://api.ecr.eu-central-1.amazonaws.com/": ecrAnswer(now.Add(time.Hour))},
			credentials.Credential{Username: "AWS", Password: "pass:word"},
			[]string{"POST https://sts.eu-central-1.amazonaws.com/ Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Ax&RoleSessionName=scanyard-registry-worker&Version=2011-06-15&WebIdentityToken=pod", "POST https://api.ecr.eu-central-1.amazonaws.com/ {}"},
			"",
		},
		"PodIdentityInChina": {
			registryv1alpha1.ProviderAWS, "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn:443",
			map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://169.254.170.23/v1/credentials", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "token:pod"},
			map[string]string{"GET http://169.254.170.23/v1/credentials": `{"AccessKeyId":"AK","SecretAccessKey":"SK","Token":"ST"}`, "POST https://api.ecr.cn-north-1.amazonaws.com.cn/": ecrAnswer(now.Add(time.Hour))},
			credentials.Credential{Username: "AWS", Password: "pass:word"},
			[]string{"GET http://169.254.170.23/v1/credentials", "POST https://api.ecr.cn-north-1.amazonaws.com.cn/ {}"},
			"",
		},
		"KeysInTheEnvironmentAndFIPS": {
			registryv1alpha1.ProviderAWS, "123456789012.dkr.ecr-fips.us-east-1.amazonaws.com",
			map[string]string{"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "SK"},
			map[string]string{"POST https://ecr-fips.us-east-1.amazonaws.com/": ecrAnswer(now.Add(time.Hour))},
			credentials.Credential{Username: "AWS", Password: "pass:word"},
			[]string{"POST https://ecr-fips.us-east-1.amazonaws.com/ {}"},
			"",
		},
		"AgentThatIsNone": {
			registryv1alpha1.ProviderAWS, ecr,
			map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://evil.example.com/", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": "token:pod"},
			nil,
			credentials.Credential{},
			nil, "is not that of EKS Pod Identity",
		},
		"NoIdentity": {registryv1alpha1.ProviderAWS, ecr, nil, nil, credentials.Credential{}, nil, "there is no AWS_ROLE_ARN"},
		"Refused": {
			registryv1alpha1.ProviderAWS, ecr,
			map[string]string{"AWS_ROLE_ARN": "arn:x", "AWS_WEB_IDENTITY_TOKEN_FILE": "token:pod"},
			nil,
			credentials.Credential{},
			[]string{"POST https://sts.eu-central-1.amazonaws.com/ Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Ax&RoleSessionName=scanyard-registry-worker&Version=2011-06-15&WebIdentityToken=pod"},
			"status 403",
		},
		"WorkloadIdentityOfGKE": {
			registryv1alpha1.ProviderGCP, "europe-docker.pkg.dev", nil,
			map[string]string{"GET http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token": `{"access_token":"at","expires_in":3600}`},
			credentials.Credential{Username: "oauth2accesstoken", Password: "at"},
			[]string{"GET http://169.254.169.254/computeMetadata/v1/instance/service-accounts/default/token"},
			"",
		},
		"WorkloadIdentityOfAzure": {
			registryv1alpha1.ProviderAzure, "shop.azurecr.io",
			map[string]string{"AZURE_CLIENT_ID": "c", "AZURE_TENANT_ID": "t", "AZURE_FEDERATED_TOKEN_FILE": "token:pod"},
			map[string]string{"POST https://login.microsoftonline.com/t/oauth2/v2.0/token": `{"access_token":"at"}`, "POST https://shop.azurecr.io/oauth2/exchange": `{"refresh_token":"rt"}`},
			credentials.Credential{IdentityToken: "rt"},
			[]string{
				"POST https://login.microsoftonline.com/t/oauth2/v2.0/token client_assertion=pod&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_id=c&grant_type=client_credentials&scope=https%3A%2F%2Fcontainerregistry.azure.net%2F.default",
				"POST https://shop.azurecr.io/oauth2/exchange access_token=at&grant_type=access_token&service=shop.azurecr.io&tenant=t",
			},
			"",
		},
		// The identity goes to no other host than a registry of its cloud.
		"ForeignHost":     {registryv1alpha1.ProviderGCP, "gcr.io.evil.example.com", nil, nil, credentials.Credential{}, nil, "is not a registry of GCP"},
		"OtherCloud":      {registryv1alpha1.ProviderAWS, "gcr.io", nil, nil, credentials.Credential{}, nil, "is not a registry of AWS"},
		"OtherPort":       {registryv1alpha1.ProviderAzure, "shop.azurecr.io:8443", nil, nil, credentials.Credential{}, nil, "is not a registry of Azure"},
		"UnknownProvider": {"Other", "gcr.io", nil, nil, credentials.Credential{}, nil, "is not a registry of Other"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &far{answers: test.answers}
			got, err := identities(t, f, test.variables).Credentials(t.Context(), test.provider, test.host)
			if !slices.Equal(f.asked, test.asked) {
				t.Errorf("asked %q\nwant  %q", f.asked, test.asked)
			}
			if test.fails != "" {
				if err == nil || !strings.Contains(err.Error(), test.fails) || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "=pod") {
					t.Errorf("got %v, want %s", err, test.fails)
				}
				return
			}
			if all := got.Match("any/repository"); err != nil || len(all) != 1 || all[0] != test.want {
				t.Errorf("%d credentials, %v", len(all), err)
			}
		})
	}
}

// TestCredentialsAreKeptUntilTheirEnd: they are fetched again five minutes before.
func TestCredentialsAreKeptUntilTheirEnd(t *testing.T) {
	f := &far{answers: map[string]string{"POST https://api.ecr.eu-central-1.amazonaws.com/": ecrAnswer(now.Add(time.Hour))}}
	i := identities(t, f, map[string]string{"AWS_ACCESS_KEY_ID": "AK", "AWS_SECRET_ACCESS_KEY": "SK"})
	for _, step := range []struct {
		after time.Duration
		asked int
	}{{0, 1}, {54 * time.Minute, 1}, {55 * time.Minute, 2}} {
		i.Now = func() time.Time { return now.Add(step.after) }
		if _, err := i.Credentials(t.Context(), registryv1alpha1.ProviderAWS, ecr); err != nil || len(f.asked) != step.asked {
			t.Errorf("after %v: %d requests, %v", step.after, len(f.asked), err)
		}
	}
	for name, want := range map[string]string{
		"X-Amz-Target": "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken", "X-Amz-Date": "20260102T035905Z", "Content-Type": "application/x-amz-json-1.1",
	} {
		if got := f.headers.Get(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := f.headers.Get("Authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AK/20260102/eu-central-1/ecr/aws4_request, SignedHeaders=content-type;host;x-amz-date;x-amz-target, ") {
		t.Error(got)
	}
}

// TestSignatureIsThatOfTheDocumentation: the example that AWS documents for Signature Version 4.
func TestSignatureIsThatOfTheDocumentation(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	sign(r, nil, keys{access: "AKIDEXAMPLE", secret: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}, "us-east-1", "iam", time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC))
	const want = "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, " +
		"Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
	if got := r.Header.Get("Authorization"); got != want {
		t.Error(got)
	}
}
