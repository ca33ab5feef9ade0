# Aliases only: every target calls ./seamline, which needs no make. `make` lists them.
.DEFAULT_GOAL := list
.PHONY: list setup demo up down status doctor test unit fault soak contract dags spark capture integration e2e simulator stack browser compose check format docs schema validate explain lock

bin := .seamline/env/venv/bin

list: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20
setup: ## environment and jars, nothing started
	./seamline setup
demo: ## the whole chain on this machine, with a report
	./seamline demo
up: ## start the local stack
	./seamline up
down: ## stop it
	./seamline down
status: ## verdicts, positions and lag
	./seamline status
doctor: ## what is missing here, and the cure
	./seamline doctor
test: ## every layer of tests but browser, compose, fault and soak, as .ci/run does
	./seamline test
unit: ## tests without any server
	./seamline test unit
soak: ## hours of random faults on real servers
	./seamline test soak
contract: ## one behaviour suite over every sink
	./seamline test contract
dags: ## DAGs, operators and triggers
	./seamline test dags
spark: ## jobs in a local Spark session
	./seamline test spark
fault: ## every failpoint in every mode, on real servers: half an hour
	./seamline test fault
capture: ## real connectors: what reaches the log topic, whatever befalls them
	./seamline test capture
integration: ## tests with real servers
	./seamline test integration
e2e: ## the demo at reduced size, through Airflow
	./seamline test e2e
simulator: ## 2,000 seeded schedules of the protocol, and every planted bug
	./seamline test simulator
browser: ## Airflow's forms, clicked in a Chromium
	./seamline test browser
compose: ## docker-compose.yml unchanged, in an engine of its own
	./seamline test compose
stack: ## the local stack itself, and sessions of tests
	./seamline test stack
check: ## linters, types, import contracts, house rules
	./seamline test unit --pytest="-k 'gate or tidy or contract'"
format: ## put every file into form
	$(bin)/ruff check --fix-only .
	$(bin)/ruff format .
docs: ## a site of the documents, to be read without a network
	./seamline docs
schema: ## JSON Schema of the declarations, and generated pages
	./seamline schema
validate: ## check the declarations
	./seamline validate
explain: ## the stages and settings of every sync
	./seamline explain
lock: ## refresh the locks of packages and jars
	./seamline lock
