"""Tools as public MCP servers list them, in our words, each with the tier that its effect has.

None may be guessed more harmless than it is. The list was judged before the guesses were looked at: then 27
of 234 were guessed weaker and 20 stricter; verbs and nouns of the field were added for those.
"""

from decider.catalog.guess import guess_tool

MOST_STRICTER = 0.10
TOOLS = """
1 get_weather|Current weather for a city
1 search_issues|Finds issues with a query
1 list_buckets|All buckets of the account
1 describe_table|Columns of a table
1 read_graph|The whole knowledge graph
1 resolve_library_id|Finds the id of a library
1 directory_tree|A tree of files below a path
1 git_status|Shows the working tree
1 git_diff|Shows changes not staged
1 git_log|Shows the commits
1 brave_web_search|Searches the web
1 maps_geocode|Coordinates of an address
1 sequentialthinking|Thinks step by step
1 get_file_contents|Text of a file of a repository
1 slack_get_users|Lists people
1 browser_console_messages|Returns console messages
1 browser_network_requests|Returns requests since the page was loaded
1 list_allowed_directories|Which folders may be read
1 count_documents|How many documents fit
1 pods_log|Logs of a pod
1 query_metrics|Reads metrics of a time
1 check_availability|Says whether a slot is free
1 lookup_contact|Finds a person
1 validate_config|Says what is wrong with a configuration
1 whois_lookup|Registrar's data of a domain
1 preview_invoice|Shows an invoice before it is made
1 current_time|Time in a zone
1 convert_time|Time from one zone in another
3 create_issue|Opens an issue
3 update_page|Changes a page
3 add_labels|Puts labels on an issue
3 move_card|Puts a card on another list
3 git_add|Stages files
3 git_commit|Records changes
3 git_create_branch|Makes a branch
3 create_entities|Adds entities to the graph
3 add_observations|Adds facts to entities
3 upload_file|Stores a file
3 copy_object|Copies an object
3 rename_channel|Gives a channel another name
3 pause_campaign|Halts a campaign
3 star_repository|Marks a repository
3 mark_as_read|Marks messages as read
3 archive_channel|Closes a channel
3 assign_ticket|Gives a ticket to someone
3 set_reminder|Makes a reminder
3 set_thermostat|Changes the target temperature
3 turn_on_light|Switches a light on
3 lights_off|Switches all lights off
3 volume_up|Makes a player louder
3 favorite_track|Saves a track to favourites
3 enqueue_song|Puts a song into the queue
3 vote_poll|Votes in a poll
3 bookmark_page|Saves a page
3 save_draft|Stores a draft
3 tag_resource|Puts tags on a resource
3 acknowledge_incident|Takes an incident
3 silence_alert|Mutes an alert
3 mute_channel|Mutes a channel
3 hide_comment|Hides a comment
3 reorder_sections|Changes the order of sections
3 reschedule_event|Gives an event another time
3 rsvp_event|Answers an invitation
3 log_time|Records time on a task
3 track_expense|Records an expense
3 index_document|Puts a document into the index
3 embed_and_store|Embeds a text and stores it
3 duplicate_page|Copies a page
3 crop_image|Crops an image and saves it
3 batch_update_cells|Changes many cells
3 insert_rows|Adds rows
3 enable_feature_flag|Turns a flag on
3 toggle_feature|Turns a flag on or off
3 report_issue|Creates a report for the team
3 capture_event|Records an event in analytics
3 export_to_drive|Writes the file to a drive
3 download_to_disk|Saves a file from an address to the disk
3 extract_and_save|Reads a page and saves it
3 fetch_and_store|Gets a page and writes it to the database
3 check_in_guest|Checks a guest in
3 check_out_book|Lends a book to a reader
3 sort_inbox|Moves messages into folders by sender
3 review_pull_request|Submits a review with a verdict on a pull request
3 complete_task|Marks a task as done
3 fork_repository|Copies a repository to the account
3 sync_contacts|Brings contacts of two systems together
3 stop_instance|Halts an instance
3 increase_budget|Raises a budget
3 change_plan|Changes the plan of a subscription
3 update_dns_record|Changes a record
3 stage_changes|Stages changes
3 stash_save|Puts changes aside
3 rate_product|Gives a product stars
3 translate_and_replace|Replaces a text by its translation
3 find_and_replace|Replaces a text everywhere in a file
3 get_or_create_customer|Finds a customer or makes one
3 read_and_mark|Reads a message and marks it
3 view_and_accept|Shows and accepts an offer
3 record_payment_note|Stores a note
3 provision_database|Makes a database
3 allocate_ip|Reserves an address
3 encrypt_file|Encrypts a file in place
3 compress_folder|Packs a folder into an archive on disk
3 generate_image|Makes an image and stores it
3 subscribe_topic|Subscribes a queue to a topic
4 send_email|Sends mail
4 slack_post_message|Posts to a channel
4 reply_to_thread|Answers in a thread for all to see
4 gmail_forward|Forwards a message to someone
4 create_payment_link|Makes a link to pay by
4 create_refund|Gives money back
4 make_payment|Pays
4 place_order|Orders goods
4 book_flight|Buys a flight
4 reserve_hotel|Books a room and charges the card
4 invite_member|Invites someone by mail
4 share_file|Gives someone access to a file
4 publish_post|Publishes a post
4 tweet|Posts in public
4 notify_team|Sends a notification to all
4 make_call|Calls a number
4 trigger_workflow|Starts a workflow with effects elsewhere
4 transfer_funds|Moves money
4 send_sms|Sends an SMS
4 post_comment_public|Posts a comment
4 create_invoice|Makes an invoice and sends it
4 finalize_invoice|Makes an invoice final and sends it
4 charge_customer|Takes money
4 tip_creator|Pays a creator
4 donate|Gives money
4 subscribe_customer|Starts a paid subscription
4 swap_tokens|Exchanges one token for another
4 stake_tokens|Locks tokens
4 bridge_assets|Moves assets to another chain
4 sign_transaction|Signs a transaction
4 mint_nft|Makes a token on chain
4 bid_auction|Bids
4 sell_stock|Sells shares
4 place_trade|Trades
4 short_position|Sells short
4 ring_doorbell|Rings a bell in the house
4 speak_text|Says a text on a loudspeaker
4 print_document|Prints on paper
4 fax_document|Sends a fax
4 request_review|Asks people for a review by mail
4 page_on_call|Alerts who is on call
4 webhook_call|Calls a web hook
4 http_post|Sends a request to an address
4 submit_form|Sends a form to a stranger's site
4 renew_subscription|Pays for another year
4 upgrade_plan|Changes to a dearer plan and charges
4 top_up_balance|Pays money in
4 cancel_with_fee|Cancels a booking and charges a fee
4 release_escrow|Pays out what was held
4 capture_payment|Takes money that was authorised
4 settle_invoice|Pays an invoice
4 deliver_message|Sends a message
4 unlock_door|Opens the door of a house
5 delete_repository|Deletes a repository
5 delete_entities|Removes entities
5 drop_table|Removes a table
5 remove_user|Removes a user
5 execute_sql|Runs any SQL
5 run_command|Runs a command of a shell
5 evaluate_script|Runs JavaScript in the page
5 browser_click|Clicks an element
5 puppeteer_fill|Fills a field
5 kubectl_apply|Applies a manifest
5 kubectl_delete|Deletes resources
5 pods_exec|Executes a command in a pod
5 helm_uninstall|Removes a release
5 helm_upgrade|Changes a release of a chart in the cluster
5 terraform_destroy|Destroys what was made
5 terminate_instances|Ends instances for good
5 reset_password|Sets another password
5 revoke_token|Takes a token away
5 grant_access|Gives rights
5 purge_queue|Empties a queue
5 clear_cache|Empties a cache
5 truncate_table|Empties a table
5 force_push|Overwrites the history of a branch
5 git_reset|Throws staged changes away
5 git_checkout_discard|Discards changes of files
5 deploy_site|Puts a site online
5 rollback_deployment|Goes back to an older release
5 restart_service|Starts a service anew
5 scale_deployment|Changes how many run
5 rotate_key|Replaces a key
5 wipe_device|Erases a device
5 factory_reset|Erases a device
5 block_user|Bans a user
5 kick_member|Throws a member out
5 eject_member|Throws a member out
5 ban_ip|Blocks an address
5 empty_trash|Deletes what is in the trash for good
5 merge_and_delete_branch|Merges, then deletes the branch
5 archive_and_purge|Archives, then deletes for good
5 elevate_privileges|Gives itself rights
5 set_permissions|Changes who may do what
5 update_iam_policy|Changes rights of a project
5 change_owner|Gives a resource to another owner
5 add_collaborator_admin|Gives someone rights of an administrator
5 create_access_key|Makes a key for an account
5 disable_mfa|Turns the second factor off
5 disable_logging|Turns the audit log off
5 import_and_overwrite|Overwrites all records by a file
5 replace_all_records|Deletes all records and writes new ones
5 reindex_drop|Drops an index and makes it again
5 format_disk|Formats a disk
5 erase_all|Erases all
5 shred_file|Destroys a file
5 nuke_environment|Destroys an environment
5 demolish_stack|Destroys a stack
5 teardown_cluster|Destroys a cluster
5 decommission_host|Takes a host down for good
5 repl|Evaluates Python given to it
5 python|Runs Python given to it
5 terminal|Runs a command in a terminal
5 ssh_exec|Runs a command on a host
5 invoke_lambda|Calls a function
5 call_contract|Calls a function of a contract on chain
5 aggregate_out|Runs a pipeline that may write its result over a collection
5 close_account|Closes an account for good
5 unpublish_page|Takes a page offline
5 expire_sessions|Ends all sessions
5 prune_volumes|Deletes volumes that are not used
5 vacuum_full|Rewrites tables and deletes dead rows
5 flash_firmware|Overwrites a device's software
5 sudo|Runs as root
5 reimage_machine|Overwrites a machine
5 dissolve_team|Deletes a team
5 forget_memory|Deletes a memory for good
5 opt_out_all|Deletes all consents
5 unshare_and_remove|Takes access away and removes the file
"""
"""Tier, name, what it does."""
LISTED = [line.split(" ", 1) for line in TOOLS.strip().splitlines()]


def test_no_tool_of_the_list_is_guessed_more_harmless_than_its_effect_and_few_stricter() -> None:
    weaker, stricter = [], []
    for tier, rest in LISTED:
        name, _, description = rest.partition("|")
        guess = guess_tool(name, description=description)
        if guess.tier < int(tier):
            weaker.append((name, guess))
        elif guess.tier > int(tier):
            stricter.append((name, guess))
    assert weaker == []
    assert len(LISTED) >= 200
    assert len(stricter) <= MOST_STRICTER * len(LISTED), stricter


def test_hint_that_a_tool_only_reads_weakens_nothing_and_one_that_it_destroys_strengthens() -> None:
    for tier, rest in LISTED:
        name, _, description = rest.partition("|")
        claimed = guess_tool(name, description=description, annotations={"readOnlyHint": True})
        assert claimed.tier >= int(tier)
        admitted = guess_tool(name, description=description, annotations={"destructiveHint": True})
        assert admitted.tier == 5
