-- The tree of a query as DuckDB itself reads it; nothing of it is run.
-- in: $query, one SELECT statement
-- out: one row, tree (JSON): {"error": false, "statements": [{"node": …}]} or {"error": true, "error_message": …}
select json_serialize_sql($query, skip_null := true, skip_empty := true, skip_default := false) as tree
