# appended to nginx's Makefile: how the engine's library comes to be

cat << END                                                    >> $NGX_MAKEFILE

$MST_LIB:
	\$(MAKE) -C $ngx_addon_dir BUILD=$MST_BUILD lib

END
