"""Tables of vector layers in the order in which tiles leave features out: those that are ready get the index for it.

Tiles are the same without it; those of a large layer take longer. A table that the migration may not change is passed.
"""

from alembic import op

revision = "0023"
down_revision = "0021"
branch_labels = None
depends_on = None

RANKED = """
do $$ declare named text; begin
    for named in select table_name from geo.layers where is_ready loop
        begin
            execute format('create index if not exists %I on geo.%I (hashint8(fid))', named || '_rank', named);
        exception when insufficient_privilege or undefined_table then
            raise notice 'The table of layer % has no index for its tiles: %', named, sqlerrm;
        end;
    end loop;
end $$
"""
UNRANKED = """
do $$ declare named text; begin
    for named in select table_name from geo.layers loop
        execute format('drop index if exists geo.%I', named || '_rank');
    end loop;
end $$
"""


def upgrade() -> None:
    op.execute(RANKED)


def downgrade() -> None:
    op.execute(UNRANKED)
