# A cluster of three instances that run Terraform themselves, in containers.
#
#   nomad job run -var image=registry.example.com/terrapulse-daemon:1.2.3 -var tasks=git::https://git.example.com/network/tasks cluster.nomad.hcl
#
# README.md says what Consul, Vault and Nomad's clients need. With terrapulse.nomad.hcl, runs are Nomad jobs of their own.

variable "image" {
  description = "The image of the daemon: infra/runner/build makes it with TARGET=daemon"
}

variable "tasks" {
  description = "Where the task files and their modules are, as go-getter reads it: git::https://…, s3::…, or an archive's URL"
}

variable "consul" {
  description = "Consul's agent, as the containers reach it on their machine"
  default     = "127.0.0.1:8500"
}

variable "vault" {
  description = "URL of Vault, as the containers reach it"
  default     = "https://vault.service.consul:8200"
}

variable "instance" {
  description = "What an instance is called, unique in the cluster. The machine's name, because a state that the backend did not take stays on its volume"
  default     = "$${node.unique.name}"
}

job "terrapulse-cluster" {
  type        = "service"
  datacenters = ["*"]

  group "instance" {
    count = 3

    constraint {
      operator = "distinct_hosts"
      value    = "true"
    }

    # One after the other: the next one is stopped when the new one is healthy.
    update {
      max_parallel      = 1
      health_check      = "checks"
      min_healthy_time  = "10s"
      healthy_deadline  = "15m"
      progress_deadline = "20m"
    }

    # An instance that ends is always started again, on its machine if that is there.
    restart {
      attempts = 10
      interval = "10m"
      delay    = "5s"
      mode     = "delay"
    }

    network {
      port "api" {}
    }

    # /var/lib/terrapulse: providers, modules, and a state that the backend did not take.
    volume "work" {
      type   = "host"
      source = "terrapulse"
    }

    service {
      name = "terrapulse"
      port = "api"

      # 503 if nothing is applied, with the reason. No check_restart: a restart would interrupt Terraform, and help nobody.
      check {
        type     = "http"
        path     = "/v1/health"
        interval = "10s"
        timeout  = "5s"
      }
    }

    task "instance" {
      driver = "docker"

      # Time for a Terraform that is interrupted. The clients' max_kill_timeout must allow it.
      kill_timeout = "10m"

      config {
        image        = var.image
        network_mode = "host"
        work_dir     = "${NOMAD_TASK_DIR}/tasks" # modules are relative to it
        args         = ["start", "-config-dir=${NOMAD_TASK_DIR}/tasks", "-config-file=${NOMAD_TASK_DIR}/instance.hcl", "-config-file=${NOMAD_SECRETS_DIR}/api.hcl", "-log-format=json"]

        readonly_rootfs = true
        cap_drop        = ["all"]
        security_opt    = ["no-new-privileges"]
        mount {
          type   = "tmpfs"
          target = "/tmp"
        }
      }

      volume_mount {
        volume      = "work"
        destination = "/var/lib/terrapulse"
      }

      # The token of the workload's identity: Nomad logs in to Consul, and sets CONSUL_HTTP_TOKEN.
      consul {}

      # Templates in task files read their secrets from Vault with the token in this file, which Nomad renews.
      vault {
        role        = "terrapulse"
        env         = false
        change_mode = "noop"
      }

      artifact {
        source      = var.tasks
        destination = "local/tasks"
      }

      template {
        destination = "local/instance.hcl"
        data        = <<-EOT
          id          = "{{ env "INSTANCE" }}"
          port        = {{ env "NOMAD_PORT_api" }}
          working_dir = "/var/lib/terrapulse/sync-tasks"
          consul {
            kv_path = "terrapulse/" # Terraform's states
            service_registration {
              enabled = false # the job has a service
            }
          }
          high_availability {
            cluster {
              name = "{{ env "NOMAD_JOB_NAME" }}"
              storage "consul" {
                parent_path = "terrapulse/"
              }
            }
            instance {
              address = "{{ env "NOMAD_IP_api" }}"
            }
          }
          vault {
            address                = "{{ env "VAULT_ADDR" }}"
            vault_agent_token_file = "{{ env "NOMAD_SECRETS_DIR" }}/vault_token"
          }
        EOT
      }

      # The token of the API, without which only the machine itself may change something.
      template {
        destination = "secrets/api.hcl"
        data        = <<-EOT
          {{ with secret "kv/data/terrapulse" }}
          api {
            token      = "{{ .Data.data.api_token }}"
            read_token = "{{ .Data.data.api_read_token }}"
          }
          {{ end }}
        EOT
      }

      env {
        INSTANCE         = var.instance
        CONSUL_HTTP_ADDR = var.consul
        VAULT_ADDR       = var.vault
        HOME             = "/var/lib/terrapulse"
      }

      # For Terraform and its providers, too.
      resources {
        cpu    = 500
        memory = 1024
      }
    }
  }
}
