-- What open findings are counted by stands in one index, and how long what was fixed had been there in another: a count reads no rows.
{{.DropIndex "results_severity" "results"}};
CREATE INDEX results_severity ON results (severity, result, ns, suppressed, first_seen, category, source, res_name);
{{.DropIndex "history_fixed" "history"}};
CREATE INDEX history_fixed ON history (fixed_at, ns, severity, first_at);
