{{- define "belfry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- /* 42 characters leave room for the suffixes of the other objects. */ -}}
{{- define "belfry.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 42 | trimSuffix "-" -}}
{{- else if contains (include "belfry.name" .) .Release.Name -}}
{{- .Release.Name | trunc 42 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "belfry.name" .) | trunc 42 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "belfry.serviceAccount" -}}
{{- default (include "belfry.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- /* What a Deployment and a Service select by: it must never change. */ -}}
{{- define "belfry.selector" -}}
app.kubernetes.io/name: {{ include "belfry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "belfry.labels" -}}
{{ include "belfry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: belfry
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "belfry.image" -}}
{{- $repository := required "image.repository is required: where you have pushed the image of belfry" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" $repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "belfry.scheme" -}}
{{- if .Values.secrets.tls.name }}https{{ else }}http{{ end -}}
{{- end -}}

{{- /* What may and may not be done in a pod: the level restricted of Kubernetes, and a root that cannot be written. */ -}}
{{- define "belfry.podSecurity" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  {{- range $name, $id := .Values.podSecurityContext }}
  {{ $name }}: {{ int64 $id }}
  {{- end }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "belfry.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop:
    - ALL
{{- end -}}

{{- /* 90% of the memory limit: the rest is for what the runtime of Go does not count. */ -}}
{{- define "belfry.memory" -}}
{{- $limit := toString (dig "limits" "memory" "" .Values.resources) -}}
{{- $set := list }}{{ range .Values.extraEnv }}{{ $set = append $set .name }}{{ end -}}
{{- if and (regexMatch "^[0-9]+[MG]i$" $limit) (not (has "GOMEMLIMIT" $set)) }}
- name: GOMEMLIMIT
  value: {{ div (mul (regexFind "^[0-9]+" $limit) 9 (ternary 1024 1 (hasSuffix "Gi" $limit))) 10 }}MiB
{{- end }}
{{- end -}}

{{- define "belfry.placement" -}}
{{- with .Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- /* Files of a node: name of the volume, directory, secret and what it holds. */ -}}
{{- define "belfry.nodeFiles" -}}
{{- $s := .Values.secrets -}}
{{- $_ := required "secrets.database.name is required: a secret with the database URL of the nodes" $s.database.name -}}
- {volume: database, secret: {{ $s.database.name | quote }}, key: {{ $s.database.key | quote }}, file: url, variable: BELFRY_DATABASE_URL_FILE}
{{- with $s.keyset }}{{ if .name }}
- {volume: keyset, secret: {{ .name | quote }}, key: {{ .key | quote }}, file: keyset, variable: BELFRY_SECRETS_KEYSET_FILE}
{{- end }}{{ end }}
{{- with $s.oidcClientSecret }}{{ if .name }}
- {volume: oidc, secret: {{ .name | quote }}, key: {{ .key | quote }}, file: client-secret, variable: BELFRY_OIDC_CLIENT_SECRET_FILE}
{{- end }}{{ end }}
{{- with $s.tracingHeaders }}{{ if .name }}
- {volume: tracing, secret: {{ .name | quote }}, key: {{ .key | quote }}, file: headers, variable: BELFRY_TRACING_HEADERS_FILE}
{{- end }}{{ end }}
{{- with $s.archive }}{{ if .name }}
- {volume: archive-access-key, secret: {{ .name | quote }}, key: {{ .accessKey | quote }}, file: key, variable: BELFRY_ARCHIVE_ACCESS_KEY_FILE}
- {volume: archive-secret-key, secret: {{ .name | quote }}, key: {{ .secretKey | quote }}, file: key, variable: BELFRY_ARCHIVE_SECRET_KEY_FILE}
{{- end }}{{ end }}
{{- with $s.databaseCA }}{{ if .name }}
- {volume: database-ca, secret: {{ .name | quote }}, key: {{ .key | quote }}, file: ca.crt}
{{- end }}{{ end }}
{{- if $s.tls.name }}
- {volume: tls, secret: {{ $s.tls.name | quote }}}
{{- end }}
{{- end -}}

{{- /* The volumes of files, as a list of secrets. */ -}}
{{- define "belfry.volumes" -}}
{{- range . }}
- name: {{ .volume }}
  secret:
    secretName: {{ .secret }}
    defaultMode: 0440
    {{- if .key }}
    items:
      - key: {{ .key }}
        path: {{ .file }}
    {{- end }}
{{- end }}
{{- end -}}

{{- define "belfry.mounts" -}}
{{- range . }}
- name: {{ .volume }}
  mountPath: /etc/belfry/{{ .volume }}
  readOnly: true
{{- end }}
{{- end -}}

{{- define "belfry.variables" -}}
{{- range . }}
{{- if .variable }}
- name: {{ .variable }}
  value: /etc/belfry/{{ .volume }}/{{ .file }}
{{- end }}
{{- if eq .volume "database-ca" }}
- name: PGSSLMODE
  value: verify-full
- name: PGSSLROOTCERT
  value: /etc/belfry/{{ .volume }}/{{ .file }}
{{- end }}
{{- end }}
{{- end -}}

{{- /* The settings of a node. Secrets come as files, whose names are in the environment. */ -}}
{{- define "belfry.settings" -}}
{{- $own := dict "listen" ":8420" "metrics_listen" ":8421" "drain" (printf "%ds" (int .Values.drainSeconds)) -}}
{{- if .Values.migration.enabled }}{{ $_ := set $own "wait_for_schema" .Values.migration.waitForSchema }}{{ end -}}
{{- /* A directory would be one of the pod: history that was archived to it and dropped would be gone with the pod. */ -}}
{{- $archive := dig "archive" "url" "" .Values.config -}}
{{- if and $archive (not (regexMatch "^https?://" $archive)) -}}
{{- fail "config.archive.url must be a bucket, such as https://s3.example.com/bucket/prefix: a directory is gone with its pod" -}}
{{- end -}}
{{- if and (hasPrefix "http://" $archive) (not (dig "archive" "insecure" false .Values.config)) -}}
{{- fail "config.archive.url leads to another machine without TLS: use https, or, if something else protects the connection, set config.archive.insecure: true" -}}
{{- end -}}
{{- /* The root file system is read-only. */ -}}
{{- if $archive }}{{ $_ := set $own "archive" (dict "directory" "/var/lib/belfry/archive") }}{{ end -}}
{{- if .Values.secrets.tls.name -}}
{{- $_ := set $own "tls_cert" "/etc/belfry/tls/tls.crt" -}}
{{- $_ := set $own "tls_key" "/etc/belfry/tls/tls.key" -}}
{{- else if .Values.insecureListen -}}
{{- $_ := set $own "insecure_listen" true -}}
{{- else -}}
{{- fail "set secrets.tls.name, or insecureListen: true if an ingress or a mesh in front of Belfry encrypts" -}}
{{- end -}}
{{- if .Values.insecureDatabase }}{{ $_ := set $own "insecure_database" true }}{{ end -}}
{{- mustMergeOverwrite (deepCopy .Values.config) $own | toYaml -}}
{{- end -}}
