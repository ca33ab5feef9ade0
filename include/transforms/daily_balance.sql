-- What the entries of a cut add up to, by number and currency.
SELECT account_id, currency, CAST(sum(amount) AS DECIMAL(38, 4)) AS amount
FROM ledger_entry
GROUP BY account_id, currency
