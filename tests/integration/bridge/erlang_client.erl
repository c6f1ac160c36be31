#!/usr/bin/env escript
%% A client of the bridge with nothing but Erlang: ZMTP 3.0 over gen_tcp, and records as term_to_binary writes them.
-mode(compile).

-record('P_basic', {content_type, content_encoding, headers, delivery_mode, priority, correlation_id, reply_to,
                    expiration, message_id, timestamp, type, user_id, app_id, cluster_id}).
-record(amqp_msg, {props = #'P_basic'{}, payload = <<>>}).

main([Host, Port]) ->
    {ok, Socket} = gen_tcp:connect(Host, list_to_integer(Port), [binary, {active, false}]),
    shake_hands(Socket),
    say(Socket, [<<"bind">>, <<>>, <<"erl.from">>]),
    say(Socket, [<<"flush">>, <<"1">>]),
    [<<"done">>, <<"1">>] = hear(Socket),
    Headers = [{<<"n">>, signedint, -5}, {<<"price">>, decimal, {2, 1999}},
               {<<"list">>, array, [{longstr, <<"a">>}, {void, undefined}]}],
    Props = #'P_basic'{content_type = <<"text/plain">>, headers = Headers, timestamp = 1700000000},
    say(Socket, [<<"send">>, <<"amq.topic">>, <<"erl.to">>,
                 term_to_binary(#amqp_msg{props = Props, payload = <<"from Erlang">>})]),
    [<<"msg">>, <<"erl.from">>, Message] = hear(Socket),
    #amqp_msg{props = #'P_basic'{priority = Priority, headers = Heard}, payload = Payload} = binary_to_term(Message),
    io:format("heard ~0p ~0p ~0p~n", [Payload, Priority, Heard]).

shake_hands(Socket) ->
    ok = gen_tcp:send(Socket, [<<16#ff, 0:64, 16#7f, 3, 0, "NULL", 0:(48 * 8)>>]),
    {ok, <<16#ff, _:64, 16#7f, 3, _/binary>>} = gen_tcp:recv(Socket, 64),
    Ready = <<5, "READY", 11, "Socket-Type", 6:32, "DEALER">>,
    ok = gen_tcp:send(Socket, [<<4, (byte_size(Ready))>>, Ready]),
    {4, <<5, "READY", _/binary>>} = frame(Socket).

say(Socket, [Last]) -> gen_tcp:send(Socket, encode(0, Last));
say(Socket, [Part | Rest]) -> ok = gen_tcp:send(Socket, encode(1, Part)), say(Socket, Rest).

encode(Flags, Part) when byte_size(Part) < 256 -> [Flags, byte_size(Part), Part];
encode(Flags, Part) -> [Flags bor 2, <<(byte_size(Part)):64>>, Part].

hear(Socket) ->
    case frame(Socket) of
        {1, Part} -> [Part | hear(Socket)];
        {0, Part} -> [Part]
    end.

frame(Socket) ->
    {ok, <<Flags>>} = gen_tcp:recv(Socket, 1, 10000),
    {ok, Length} = gen_tcp:recv(Socket, case Flags band 2 of 2 -> 8; 0 -> 1 end),
    case binary:decode_unsigned(Length) of
        0 -> {Flags band 5, <<>>};
        Size -> {ok, Part} = gen_tcp:recv(Socket, Size), {Flags band 5, Part}
    end.
