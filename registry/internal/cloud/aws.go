// SPDX-License-Identifier: Apache-2.0

package cloud

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/scanyard/scanyard/registry/internal/credentials"
)

const (
	ecrTarget   = "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken"
	stsVersion  = "2011-06-15"
	sessionName = "scanyard-registry-worker"
)

// ecrHost has the account, whether it is of FIPS, the region, and the domain of a partition.
var ecrHost = regexp.MustCompile(`\A([0-9]{12})\.dkr\.ecr(-fips)?\.([a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?)\z`)

// keys sign requests.
type keys struct{ access, secret, session string }

// aws asks ECR for a password.
func (i *Identities) aws(ctx context.Context, host string) (granted, error) {
	parts := ecrHost.FindStringSubmatch(host)
	fips, region, domain := parts[2] != "", parts[3], parts[4]
	with, err := i.awsKeys(ctx, region, domain)
	if err != nil {
		return granted{}, err
	}
	endpoint := "https://api.ecr." + region + "." + domain + "/"
	if fips {
		endpoint = "https://ecr-fips." + region + "." + domain + "/"
	}
	body := []byte("{}")
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return granted{}, fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", ecrTarget)
	sign(r, body, with, region, "ecr", i.Now())
	var answer struct {
		AuthorizationData []struct {
			AuthorizationToken string  `json:"authorizationToken"`
			ExpiresAt          float64 `json:"expiresAt"`
		} `json:"authorizationData"`
	}
	if err := i.ask(r, &answer); err != nil {
		return granted{}, err
	}
	if len(answer.AuthorizationData) == 0 {
		return granted{}, errors.New("ECR gives no token")
	}
	first := answer.AuthorizationData[0]
	text, err := base64.StdEncoding.DecodeString(first.AuthorizationToken)
	user, password, whole := strings.Cut(string(text), ":")
	if err != nil || !whole {
		return granted{}, errors.New("the token of ECR is not user and password")
	}
	return granted{credentials.Credential{Username: user, Password: password}, time.Unix(int64(first.ExpiresAt), 0)}, nil
}

// awsKeys finds the keys of the pod: in its environment, by its token at STS (IAM roles for service accounts), or from the agent of EKS
// Pod Identity.
func (i *Identities) awsKeys(ctx context.Context, region, domain string) (keys, error) {
	switch {
	case i.Env("AWS_ACCESS_KEY_ID") != "":
		return keys{i.Env("AWS_ACCESS_KEY_ID"), i.Env("AWS_SECRET_ACCESS_KEY"), i.Env("AWS_SESSION_TOKEN")}, nil
	case i.Env("AWS_CONTAINER_CREDENTIALS_FULL_URI") != "":
		return i.podIdentity(ctx)
	}
	told, err := i.env("AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")
	if err != nil {
		return keys{}, err
	}
	identity, err := token(told[1])
	if err != nil {
		return keys{}, err
	}
	r, err := form(ctx, "https://sts."+region+"."+domain+"/", url.Values{
		"Action": {"AssumeRoleWithWebIdentity"}, "Version": {stsVersion}, "RoleArn": {told[0]}, "WebIdentityToken": {identity},
		"RoleSessionName": {cmp.Or(i.Env("AWS_ROLE_SESSION_NAME"), sessionName)},
	})
	if err != nil {
		return keys{}, err
	}
	body, err := i.do(r)
	if err != nil {
		return keys{}, err
	}
	var answer struct {
		Credentials struct {
			Access  string `xml:"AccessKeyId"`
			Secret  string `xml:"SecretAccessKey"`
			Session string `xml:"SessionToken"`
		} `xml:"AssumeRoleWithWebIdentityResult>Credentials"`
	}
	if xml.Unmarshal(body, &answer) != nil || answer.Credentials.Access == "" {
		return keys{}, errors.New("the answer of STS has no keys")
	}
	return keys{answer.Credentials.Access, answer.Credentials.Secret, answer.Credentials.Session}, nil
}

// agents are where the agent of EKS Pod Identity listens: the pod's token is sent nowhere else.
var agents = []string{"169.254.170.23", "fd00:ec2::23"}

func (i *Identities) podIdentity(ctx context.Context) (keys, error) {
	address, err := url.Parse(i.Env("AWS_CONTAINER_CREDENTIALS_FULL_URI"))
	if err != nil || address.Scheme != "http" || address.Hostname() != agents[0] && address.Hostname() != agents[1] {
		return keys{}, errors.New("AWS_CONTAINER_CREDENTIALS_FULL_URI is not that of EKS Pod Identity")
	}
	told, err := i.env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE")
	if err != nil {
		return keys{}, err
	}
	identity, err := token(told[0])
	if err != nil {
		return keys{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), http.NoBody)
	if err != nil {
		return keys{}, fmt.Errorf("make a request: %w", err)
	}
	r.Header.Set("Authorization", identity)
	body, err := i.do(r)
	if err != nil {
		return keys{}, err
	}
	var answer struct {
		Access  string `json:"AccessKeyId"`
		Secret  string `json:"SecretAccessKey"`
		Session string `json:"Token"`
	}
	if json.Unmarshal(body, &answer) != nil || answer.Access == "" {
		return keys{}, errors.New("the answer of EKS Pod Identity has no keys")
	}
	return keys{answer.Access, answer.Secret, answer.Session}, nil
}
