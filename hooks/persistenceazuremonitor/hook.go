// SPDX-License-Identifier: Apache-2.0

package persistenceazuremonitor

import (
	"context"
	"errors"
	"net/http"

	"github.com/scanyard/scanyard/hooks/sdk"
	"github.com/scanyard/scanyard/hooks/sdk/delivery"
)

// Hook registers persistence-azure-monitor.
func Hook() sdk.Hook {
	return sdk.Hook{
		Name:     "persistence-azure-monitor",
		Summary:  "Sends findings to a Log Analytics workspace of Azure Monitor.",
		Excepted: sdk.ExceptedMark,
		Settings: append([]sdk.Setting{
			sdk.ExceptedSetting(sdk.ExceptedMark),
			{Name: "MONITOR_INGESTION_ENDPOINT", Text: "Logs Ingestion API: address of the data collection rule or endpoint; it wins over a workspace"},
			{Name: "MONITOR_INGESTION_RULE", Text: "immutable id of the data collection rule, such as dcr-0123…"},
			{Name: "MONITOR_INGESTION_STREAM", Text: "name of the stream in the rule, such as Custom-Findings"},
			{Name: "MONITOR_TENANT_ID", Text: "id of the directory of the application that sends; or MONITOR_TENANT_ID_FILE"},
			{Name: "MONITOR_CLIENT_ID", Text: "id of that application; or MONITOR_CLIENT_ID_FILE"},
			{Name: "MONITOR_CLIENT_SECRET", Text: "its secret; or MONITOR_CLIENT_SECRET_FILE"},
			{Name: "MONITOR_AUTHORITY", Text: "where tokens come from; default " + defaultAuthority},
			{Name: "MONITOR_SCOPE", Text: "what tokens are for; default " + defaultScope},
			{Name: "MONITOR_WORKSPACE_ID", Text: "HTTP Data Collector API: id of the workspace; or MONITOR_WORKSPACE_ID_FILE"},
			{Name: "MONITOR_SHARED_KEY", Text: "a key of the workspace; or MONITOR_SHARED_KEY_FILE"},
			{Name: "MONITOR_LOGTYPE_PREFIX", Text: "how names of tables begin; an underscore and the scan type follow; default " + defaultPrefix},
			{Name: "MONITOR_LOGTYPE_CLEAN", Text: "true: characters that names of tables cannot have become underscores; default false, as secureCodeBox does"},
			{Name: "MONITOR_ADDRESS", Text: "other address of the Data Collector, as of other clouds; default https://MONITOR_WORKSPACE_ID.ods.opinsights.azure.com"},
		}, sdk.DeliverySettings()...),
		New: newHandler,
	}
}

func newHandler(env sdk.Env) (sdk.Handler, error) {
	if env.Get("MONITOR_INGESTION_ENDPOINT") != "" {
		return newIngestion(env)
	}
	return newCollector(env)
}

// require reads variables that must be there, from files or not.
func require(env sdk.Env, into map[string]*string) error {
	var missing []error
	for _, name := range []string{
		"MONITOR_INGESTION_RULE", "MONITOR_INGESTION_STREAM", "MONITOR_TENANT_ID", "MONITOR_CLIENT_ID", "MONITOR_CLIENT_SECRET",
		"MONITOR_WORKSPACE_ID", "MONITOR_SHARED_KEY",
	} {
		if field, wanted := into[name]; wanted {
			value, err := env.RequireSecret(name)
			*field = value
			missing = append(missing, err)
		}
	}
	return errors.Join(missing...)
}

// post sends a batch of findings.
type post func(ctx context.Context, body delivery.Body) error

// deliver sends all findings with what is said about the Scan in each of them.
func deliver(ctx context.Context, s *sdk.Session, client *delivery.Client, limits delivery.Limits, more func(*record), send post) error {
	encode, err := encoder(s, more)
	if err != nil {
		return err
	}
	batches := client.NewBatcher(limits, func(ctx context.Context, b *delivery.Batch) ([]delivery.Failure, error) {
		err := send(ctx, b.Array())
		status, ok := errors.AsType[*delivery.StatusError](err)
		if ok && status.Status == http.StatusRequestEntityTooLarge && len(b.Items) == 1 {
			return []delivery.Failure{{Index: 0, Err: errTooLarge}}, nil
		}
		return nil, err
	})
	return s.Deliver(ctx, batches, encode)
}

var errTooLarge = errors.New("it is too large for Azure Monitor (413)")
