{{- define "terrapulse.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "terrapulse.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "terrapulse.labels" -}}
{{ include "terrapulse.selector" . }}
app.kubernetes.io/version: {{ default .Chart.AppVersion .Values.image.tag | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "terrapulse.serviceAccount" -}}
{{- default (include "terrapulse.fullname" .) .Values.serviceAccount.name -}}
{{- end -}}

{{- define "terrapulse.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}

{{- define "terrapulse.scheme" -}}
{{- if .Values.api.tlsSecret }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}

{{/* The settings of all instances, which only a restart changes. */}}
{{- define "terrapulse.config" -}}
{{- $name := include "terrapulse.fullname" . -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) (printf "%s.%s.svc.cluster.local" $name .Release.Namespace) -}}
port: 8558
working_dir: /var/lib/terrapulse/sync-tasks
log_level: {{ .Values.logLevel }}
consul:
  address: {{ .Values.consul.address | quote }}
  # Terraform's states, unless config.driver says where they are.
  kv_path: {{ .Values.cluster.parentPath | quote }}
  {{- if .Values.consul.tls.enabled }}
  tls:
    enabled: true
    {{- if .Values.consul.tls.caSecret }}
    ca_cert: /etc/terrapulse/consul-ca/{{ .Values.consul.tls.caKey }}
    {{- end }}
    {{- if .Values.consul.tls.clientSecret }}
    cert: /etc/terrapulse/consul-client/tls.crt
    key: /etc/terrapulse/consul-client/tls.key
    {{- end }}
    {{- if .Values.consul.tls.serverName }}
    server_name: {{ .Values.consul.tls.serverName | quote }}
    {{- end }}
  {{- end }}
  # Kubernetes knows which instances live.
  service_registration:
    enabled: false
high_availability:
  cluster:
    name: {{ default $name .Values.cluster.name | quote }}
    storage:
      consul:
        parent_path: {{ .Values.cluster.parentPath | quote }}
        session_ttl: {{ .Values.cluster.sessionTTL }}
api:
  hosts: {{ concat $hosts .Values.api.hosts | toJson }}
  {{- if .Values.api.url }}
  url: {{ .Values.api.url | quote }}
  {{- end }}
  {{- if .Values.api.token.secret }}
  token_file: /etc/terrapulse/token/{{ .Values.api.token.key }}
  {{- end }}
  {{- if .Values.api.readToken.secret }}
  read_token_file: /etc/terrapulse/read-token/{{ .Values.api.readToken.key }}
  {{- end }}
{{- if .Values.api.tlsSecret }}
tls:
  enabled: true
  cert: /etc/terrapulse/tls/tls.crt
  key: /etc/terrapulse/tls/tls.key
{{- end }}
{{- end -}}
